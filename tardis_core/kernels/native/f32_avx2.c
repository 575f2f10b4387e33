#include "common.h"
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include "f32.h"
#include "avx2.h"
#define ROUGH_RECIPROCAL RECIPROCAL_f32
#define VARIANT run_f32_avx2
#include "variant.h"
#endif
