/* x86 with 32 registers of 64 bytes. */
#include <immintrin.h>
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
#define VECTOR_BYTES 64
#define MR 8
#define FAST_RECIPROCAL_F32(x) ((vec)_mm512_rcp14_ps((__m512)(x)))
