/* x86 with 32 registers of 64 bytes. */
#include <immintrin.h>
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")
#define VECTOR_BYTES 64
#define MR 8
#define AT_ONCE 8
#define LOAD_PART_f32(from, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), from)
#define LOAD_PART_f64(from, n) _mm512_maskz_loadu_pd((__mmask8)((1u << (n)) - 1), from)
#define STORE_PART_f32(to, v, n) _mm512_mask_storeu_ps(to, (__mmask16)((1u << (n)) - 1), v)
#define STORE_PART_f64(to, v, n) _mm512_mask_storeu_pd(to, (__mmask8)((1u << (n)) - 1), v)
#define RECIPROCAL_f32(x) _mm512_rcp14_ps(x)
#define MINIMUM_f32(x, y) _mm512_min_ps(x, y)
#define MAXIMUM_f32(x, y) _mm512_max_ps(x, y)
#define MINIMUM_f64(x, y) _mm512_min_pd(x, y)
#define MAXIMUM_f64(x, y) _mm512_max_pd(x, y)
