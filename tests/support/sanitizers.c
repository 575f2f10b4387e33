/* Forward and backward of the native kernel over edge shapes, with every array exactly as long as
 * needed: built with a sanitizer, it stops at the first access out of bounds or data race. */

#include "common.h"
#ifdef DOUBLE
#include "f64.h"
#else
#include "f32.h"
#endif
#include "problem.h"

#include <stdio.h>

int tardis_run(const void *, int, int, int), tardis_best_level(void), tardis_bf16_level(void);
int64_t tardis_tape_size(const void *);

static void *owned[128];
static int owners;

static void *own(int64_t bytes) { return owned[owners++] = malloc((size_t)bytes); }

/* Numbers between -0.5 and 0.5; what the kernel makes begins as NaN, so that none can be left out. */
static real *numbers(int64_t count, int made) {
    static uint32_t seed = 1;
    real *x = own(count * (int64_t)sizeof(real));
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = made ? (real)NAN : (real)(seed >> 8) / (1 << 24) - (real)0.5;
    }
    return x;
}

static int64_t *integers(int64_t count, int64_t below) {
    int64_t *x = own(count * 8);
    for (int64_t i = 0; i < count; i++) x[i] = below ? i % below : 0;
    return x;
}

static void check(const char *name, const real *x, int64_t count) {
    for (int64_t i = 0; x && i < count; i++)
        if (!isfinite(x[i])) {
            printf("%s[%lld] was not made\n", name, (long long)i);
            exit(3);
        }
}

#define GIVE(field, count) p.field = numbers(count, 0)
#define MAKE(field, count) p.field = numbers(count, 1)
#define CHECK(field, count) check(#field, p.field, count)

/* What bits of `modes` mean, in order. */
enum { RESET = 1, NORM = 2, SOFT = 4, MASK = 8, CARRIED = 16, DROPOUT = 32, LOGITS = 64, INPUTS = 128 };

static void run(const int64_t *size, int modes, int64_t threads, int level) {
    Problem p = {.T = size[0], .B = size[1], .D = size[2], .H = size[3], .K = size[4], .A = size[5],
                 .C = size[6], .P = size[7], .threads = threads};
    int memory = p.K > 0;
    p.reset = memory && modes & RESET, p.norm = !!(modes & NORM), p.soft = memory && modes & SOFT;
    int64_t softmaxes = memory && !p.soft && modes & DROPOUT ? 2 : 0; /* backward alone */
    p.attached = p.soft || softmaxes, p.keep = 1;
    int64_t T = p.T, B = p.B, D = p.D, H = p.H, K = p.K, A = p.A, C = p.C, P = p.P, N = T * B, Q = A + C;
    int64_t G = 4 * H + (p.reset ? 2 : 0);
    GIVE(x_TBD, N * D), GIVE(W_x_GD, G * D), GIVE(b_G, G), GIVE(W_h_GH, G * H);
    GIVE(h0_BH, B * H), GIVE(c0_BH, B * H), MAKE(h_TBH, N * H + B * H), MAKE(h_BH, B * H);
    MAKE(c_BH, B * H), GIVE(dh_BH, B * H), GIVE(dc_BH, B * H), GIVE(dh_out_TBH, N * H);
    MAKE(dW_x_GD, G * D), MAKE(db_G, G), MAKE(dW_h_GH, G * H);
    if (p.norm) GIVE(gain_4H, 4 * H), MAKE(dgain_4H, 4 * H);
    if (modes & DROPOUT) GIVE(dropout_TBH, N * H);
    if (modes & INPUTS) MAKE(dx_TBD, N * D);
    if (modes & MASK) {
        uint8_t *mask = own(N);
        for (int64_t i = 0; i < N; i++) mask[i] = i % 3 != 0;
        p.mask_TB = mask;
        MAKE(h_out_TBH, N * H);
    }
    if (memory) {
        GIVE(W_r_GQ, G * Q), GIVE(W_m_CH, C * H), GIVE(read_W_x_PD, P * D), GIVE(read_b_P, P);
        GIVE(read_W_h_PH, P * H), GIVE(read_W_c_PC, P * C), GIVE(read_W_u_PK, P * K);
        GIVE(address_KP, K * P), GIVE(a_P, P), GIVE(address_KA, K * A);
        MAKE(r_TBQ, N * Q), MAKE(pi_TBK, N * K), MAKE(content_BKC, B * K * C), MAKE(reads_BK, B * K);
        MAKE(last_BK, B * K), GIVE(dr_TBQ, N * Q);
        if (modes & (CARRIED | INPUTS)) GIVE(dcontent_BKC, B * K * C);
        p.read_TB = integers(N, 0), p.written_TB = integers(N, 0), p.steps_B = integers(B, 0);
        MAKE(dW_r_GQ, G * Q), MAKE(dW_m_CH, C * H);
        if (modes & LOGITS) GIVE(dpi_TBK, N * K);
        if (p.soft) {
            GIVE(w_tau_1H, H), GIVE(b_tau_1, 1), GIVE(read_noise_TBK, N * K);
            MAKE(dw_tau_1H, H), MAKE(db_tau_1, 1);
        }
        if (softmaxes) GIVE(p_STBK, softmaxes * N * K), GIVE(scale_S, softmaxes);
        if (p.soft || softmaxes || p.dpi_TBK) {
            MAKE(dread_W_x_PD, P * D), MAKE(dread_b_P, P), MAKE(dread_W_h_PH, P * H);
            MAKE(dread_W_c_PC, P * C), MAKE(dread_W_u_PK, P * K), MAKE(daddress_KP, K * P);
            MAKE(da_P, P);
        }
        if (modes & CARRIED) {
            GIVE(content0_BKC, B * K * C), GIVE(reads0_BK, B * K), GIVE(last0_BK, B * K);
            p.steps0_B = integers(B, 2 * K);
        }
    }
    if (p.reset) MAKE(reset_TB2, N * 2), GIVE(reset_noise_TB2, N * 2), GIVE(dreset_TB2, N * 2);
    p.tape = own(tardis_tape_size(&p) * (int64_t)sizeof(real));

    int is_double = sizeof(real) == 8;
    if (tardis_run(&p, is_double, 0, level)) exit(4);
    p.softmaxes = softmaxes;
    if (tardis_run(&p, is_double, 1, level)) exit(4);
    CHECK(h_TBH, N * H + B * H), CHECK(h_BH, B * H), CHECK(c_BH, B * H), CHECK(content_BKC, B * K * C);
    CHECK(r_TBQ, N * Q), CHECK(pi_TBK, N * K), CHECK(dx_TBD, N * D), CHECK(dW_x_GD, G * D);
    CHECK(db_G, G), CHECK(dW_h_GH, G * H), CHECK(dW_r_GQ, G * Q), CHECK(dgain_4H, 4 * H);
    CHECK(dW_m_CH, C * H), CHECK(dread_W_x_PD, P * D), CHECK(dread_b_P, P), CHECK(dread_W_h_PH, P * H);
    CHECK(dread_W_c_PC, P * C), CHECK(dread_W_u_PK, P * K), CHECK(daddress_KP, K * P), CHECK(da_P, P);
    CHECK(dw_tau_1H, H), CHECK(db_tau_1, 1), CHECK(dh_BH, B * H), CHECK(dcontent_BKC, B * K * C);
    while (owners) free(owned[--owners]);
}

/* The argument says how many combinations of the modes to pass over: 1 takes them all. */
int main(int count, char **arguments) {
    int stride = count > 1 ? atoi(arguments[1]) : 1;
    /* T, B, D, H, K, A, C, P: one of each; T below, at and above K; nothing, and all, whole vectors. */
    static const int64_t sizes[][8] = {
        {1, 1, 1, 1, 1, 1, 1, 1}, {3, 2, 1, 3, 5, 2, 3, 2},     {5, 3, 2, 17, 5, 1, 7, 9},
        {9, 5, 3, 5, 4, 3, 2, 5}, {6, 9, 16, 32, 16, 16, 16, 8}, {4, 17, 5, 49, 3, 2, 33, 23},
        {4, 3, 2, 9, 0, 0, 0, 0}, {2, 5, 7, 90, 2, 4, 20, 22},
        {4, 35, 1, 3, 6, 1, 2, 9}, /* a batch in parts */
    };
#ifdef __SANITIZE_THREAD__
    const int64_t fewest_threads = 3; /* one alone races with nobody */
#else
    const int64_t fewest_threads = 1;
#endif
    int runs = 0, last = tardis_best_level();
    if (sizeof(real) == 4 && tardis_bf16_level()) last = tardis_bf16_level();
    for (int level = 0; level <= last; level++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int modes = (int)i % stride; modes < 256; modes += stride)
                for (int64_t threads = fewest_threads; threads <= 3; threads += 2) {
                    run(sizes[i], modes, threads, level);
                    runs++;
                }
    printf("%d sequences\n", runs);
    return 0;
}
