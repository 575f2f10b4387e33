/* The entry points, the choice of the instruction set, and the threads. */

#include "common.h"
#include "f64.h"
#include "problem.h"
#include "tape.h"

#include <pthread.h>

typedef struct {
    void (*work)(void *, int64_t);
    void *data;
    int64_t tasks;
    atomic_llong next;
} Team;

/* Gradients that die out over a long sequence become denormal numbers, a hundred times slower than
   others: meanwhile they count as zero. The thread gets its own mode back. */
#ifdef __SSE2__
#include <xmmintrin.h>
static unsigned flush_denormals(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    return before;
}
static void restore_mode(unsigned before) { _mm_setcsr(before); }
#else
static unsigned flush_denormals(void) { return 0; }
static void restore_mode(unsigned before) { (void)before; }
#endif

/* Do tasks until none is left: what a task computes does not depend on who does it. */
static void *serve(void *argument) {
    Team *team = argument;
    unsigned mode = flush_denormals();
    for (;;) {
        int64_t task = atomic_fetch_add(&team->next, 1);
        if (task >= team->tasks) break;
        team->work(team->data, task);
    }
    restore_mode(mode);
    return NULL;
}

static void serve_pool(void *argument) { serve(argument); }

enum { MOST_THREADS = 256 };

void in_parallel(parallel_fn pool, int64_t threads, void (*work)(void *, int64_t), void *data,
                 int64_t tasks) {
    Team team = {work, data, tasks, 0};
    if (threads > tasks) threads = tasks;
    if (threads > 1 && pool) {
        pool(serve_pool, &team, (unsigned)threads, 0);
        return;
    }
    pthread_t helpers[MOST_THREADS];
    int started = 0;
    while (started + 1 < threads && started < MOST_THREADS) {
        if (pthread_create(&helpers[started], NULL, serve, &team)) break;
        started++;
    }
    serve(&team);
    for (int i = 0; i < started; i++) pthread_join(helpers[i], NULL);
}

typedef int run_fn(const void *problem, int backward);
run_fn run_f32_base, run_f32_avx2, run_f32_avx512, run_f32_bf16, run_f32_amx;
run_fn run_f64_base, run_f64_avx2, run_f64_avx512;

static run_fn *const variants[][2] = { /* in single and double precision, by level */
    {run_f32_base, run_f64_base},
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    {run_f32_avx2, run_f64_avx2},
    {run_f32_avx512, run_f64_avx512},
#endif
#ifdef HAS_BF16
    {run_f32_bf16, NULL},
    {run_f32_amx, NULL},
#endif
};

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

/* Whether this process may use the matrix unit; Linux wants to be asked, because threads that use it
   need 8 KB more to be suspended. */
#if defined(HAS_BF16) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* of arch_prctl */
static int has_amx(void) {
    const unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (!(d & amx_bf16) || !(d & amx_tile)) return 0;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#else
static int has_amx(void) { return 0; }
#endif

/* The best one whose products round their factors to bfloat16, 3: bf16 or 4: amx; 0: there is none. */
int tardis_bf16_level(void) {
#ifdef HAS_BF16
    if (tardis_best_level() == 2 && __builtin_cpu_supports("avx512bf16")) return has_amx() ? 4 : 3;
#endif
    return 0;
}

/* Run a problem in single or double precision; returns 0, or 1 if there is not enough memory. */
int tardis_run(const void *problem, int is_double, int backward, int level) {
    return variants[level][is_double](problem, backward);
}

/* How many numbers the tape of a problem takes; the same in single and double precision. */
int64_t tardis_tape_size(const void *problem) {
    const Problem *p = problem;
    Arena arena = {NULL, 0};
    take_tape(&arena, p);
    /* Counted for double: in single precision integers and the ends of arrays weigh more. */
    return arena.used / (int64_t)sizeof(real) + p->T * p->B + 128;
}

/* Checked before use: the caller's idea of the structure must be this one. */
int tardis_size(void) { return (int)sizeof(Problem); }
int tardis_layout(void) { return LAYOUT; }
