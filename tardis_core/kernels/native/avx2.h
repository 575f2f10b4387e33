/* x86 of 2013 and later. */
#include <immintrin.h>
#pragma GCC target("avx2,fma")
#define VECTOR_BYTES 32
#define MR 4
#define FAST_RECIPROCAL_F32(x) ((vec)_mm256_rcp_ps((__m256)(x)))
