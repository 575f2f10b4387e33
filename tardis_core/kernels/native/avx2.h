/* x86 of 2013 and later. */
#include <immintrin.h>
#pragma GCC target("avx2,fma")
#define VECTOR_BYTES 32
#define MR 4
#define AT_ONCE 4
#define MASK_f32(n) _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define MASK_f64(n) _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3))
#define LOAD_PART_f32(from, n) _mm256_maskload_ps(from, MASK_f32(n))
#define LOAD_PART_f64(from, n) _mm256_maskload_pd(from, MASK_f64(n))
#define STORE_PART_f32(to, v, n) _mm256_maskstore_ps(to, MASK_f32(n), v)
#define STORE_PART_f64(to, v, n) _mm256_maskstore_pd(to, MASK_f64(n), v)
#define RECIPROCAL_f32(x) _mm256_rcp_ps(x)
#define MINIMUM_f32(x, y) _mm256_min_ps(x, y)
#define MAXIMUM_f32(x, y) _mm256_max_ps(x, y)
#define MINIMUM_f64(x, y) _mm256_min_pd(x, y)
#define MAXIMUM_f64(x, y) _mm256_max_pd(x, y)
