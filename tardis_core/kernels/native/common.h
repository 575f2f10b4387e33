/* What the variants of the kernel share: threads, and the table of 1 / n!. */

#ifndef TARDIS_COMMON_H
#define TARDIS_COMMON_H

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUT = 7 }; /* to be raised with every change of Problem or of the entry points */

/* How an OpenMP runtime starts a team: GOMP_parallel(function, data, threads, flags). */
typedef void (*parallel_fn)(void (*)(void *), void *, unsigned, unsigned);

/* Run work(data, i) for all i < tasks on that many threads, of the pool or new ones. */
void in_parallel(parallel_fn pool, int64_t threads, void (*work)(void *, int64_t), void *data,
                 int64_t tasks);

/* Whether the compiler knows the instructions for products of bfloat16. */
#if defined(__x86_64__) && defined(__GNUC__) && __GNUC__ >= 11 && !defined(__clang__)
#define HAS_BF16
#endif

static inline char *align_64(char *p) { return (char *)(((uintptr_t)p + 63) / 64 * 64); }

static const double INVERSE_FACTORIAL[] = {
    1.0,        1.0,         1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,        1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600,
    1.0 / 6227020800.0,
};

#define UNROLLED _Pragma("GCC unroll 16")
#define ALWAYS_INLINE __attribute__((always_inline))
#define CAT2_(a, b) a##_##b
#define CAT2(a, b) CAT2_(a, b)
#define FOR_TYPE(name) CAT2(name, TYPE)
#define CAT3_(a, b, c) a##_##b##_##c
#define CAT3(a, b, c) CAT3_(a, b, c)

#endif
