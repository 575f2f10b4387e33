#include "common.h"
#ifdef HAS_BF16
#include "f32.h"
#include "avx512.h"
#pragma GCC target("avx512bf16")
#define ROUGH_RECIPROCAL RECIPROCAL_f32
#define BF16
#define VARIANT run_f32_bf16
#include "variant.h"
#endif
