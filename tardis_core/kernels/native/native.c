/* The entry points, the choice of the instruction set, and the threads. */

#include "common.h"
#include "f64.h"
#include "problem.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct {
    void (*work)(void *, int64_t);
    void *data;
    int64_t shares;
    atomic_llong next;
} Team;

/* Take shares until none is left: what a share computes does not depend on who takes it. */
static void *serve(void *argument) {
    Team *team = argument;
    for (;;) {
        int64_t share = atomic_fetch_add(&team->next, 1);
        if (share >= team->shares) return NULL;
        team->work(team->data, share);
    }
}

static void serve_pool(void *argument) { serve(argument); }

enum { MOST_THREADS = 256 };

void in_parallel(parallel_fn pool, void (*work)(void *, int64_t), void *data, int64_t shares) {
    Team team = {work, data, shares, 0};
    if (shares > 1 && pool) {
        pool(serve_pool, &team, (unsigned)shares, 0);
        return;
    }
    pthread_t threads[MOST_THREADS];
    int started = 0;
    while (started + 1 < shares && started < MOST_THREADS)
        if (pthread_create(&threads[started], NULL, serve, &team)) break;
        else started++;
    serve(&team);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

int run_f32_base(const void *, int), run_f32_avx2(const void *, int), run_f32_avx512(const void *, int);
int run_f64_base(const void *, int), run_f64_avx2(const void *, int), run_f64_avx512(const void *, int);

/* 0: base, 1: avx2, 2: avx512 */
int tardis_best_level(void) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}

/* Run a problem in single or double precision; returns 0, or 1 if there is not enough memory. */
int tardis_run(const void *problem, int is_double, int backward, int level) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    if (level == 2) return (is_double ? run_f64_avx512 : run_f32_avx512)(problem, backward);
    if (level == 1) return (is_double ? run_f64_avx2 : run_f32_avx2)(problem, backward);
#endif
    (void)level;
    return (is_double ? run_f64_base : run_f32_base)(problem, backward);
}

/* Checked before use: the caller's idea of the structure must be this one. */
int tardis_size(void) { return (int)sizeof(Problem); }
int tardis_layout(void) { return LAYOUT; }
