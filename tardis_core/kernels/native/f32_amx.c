#include "common.h"
#ifdef HAS_BF16
#include "f32.h"
#include "avx512.h"
#pragma GCC target("avx512bf16,amx-tile,amx-bf16")
#define ROUGH_RECIPROCAL RECIPROCAL_f32
#define BF16
#define AMX
#define VARIANT run_f32_amx
#include "variant.h"
#endif
