/* The read logits, Eq. (4): pi[k] = a . tanh(W_m M[k] + z), where z is what all cells share.
 *
 * W_m M[k] is kept a cell as E = exp(2 W_m M[k]), and only the written row is renewed: then
 * tanh(W_m M[k] + z) = 1 - 2 / (1 + E exp(2 z)) takes no exponential a cell. Where that product could
 * overflow, the sample's cells are computed the slow way. */

#define HALF_LIMIT ((EXP_LIMIT - 1) / 2)

typedef struct {
    int64_t width;  /* P, padded to whole vectors */
    real *E;        /* [sample][cell][width] */
    uint8_t *wild;  /* [sample][cell]: too large for the product of exponentials */
    int64_t *wilds; /* [sample]: how many of its cells are */
    real *a, *e, *exact; /* padded: a, exp(2 z), a row in place of E */
    real a_sum;
} Cells;

static Cells take_cells(Arena *arena, const Problem *p, int64_t M) {
    Cells cells = {.width = (p->P + VL - 1) / VL * VL};
    cells.E = TAKE(arena, real, M * p->K * cells.width);
    cells.wild = TAKE(arena, uint8_t, M * p->K);
    cells.wilds = TAKE(arena, int64_t, M);
    cells.a = TAKE(arena, real, cells.width);
    cells.e = TAKE(arena, real, cells.width);
    cells.exact = TAKE(arena, real, cells.width);
    for (int64_t i = 0; i < p->P && arena->start; i++) {
        cells.a[i] = p->a_P[i];
        cells.a_sum += p->a_P[i];
    }
    return cells;
}

/* Renew one cell; `row` is W_m M[k] of its content. */
static void renew_cell(const Problem *p, Cells *cells, int64_t sample, int64_t k, const real *row) {
    int64_t place = sample * p->K + k;
    real *E = cells->E + place * cells->width;
    ivec outside = {0};
    for (int64_t i = 0; i < p->P; i += VL) {
        int64_t n = p->P - i;
        vec x = 2 * (load_n(row + i, n) + load_n(p->address_KP + k * p->P + i, n));
        vec inside = clamp(x, HALF_LIMIT);
        outside |= x != inside; /* also true of what is not a number */
        store_n(E + i, vexp(inside), n);
    }
    int wild = any(outside);
    cells->wilds[sample] += wild - cells->wild[place];
    cells->wild[place] = (uint8_t)wild;
}

/* All cells of all samples; `rows` has room for K x P. */
static void renew_all(const Problem *p, const Packed *W_c, Cells *cells, const real *content,
                      int64_t M, real *rows) {
    for (int64_t b = 0; b < M; b++) {
        product(p->K, content + b * p->K * p->C, p->C, W_c, rows, p->P, 0);
        for (int64_t k = 0; k < p->K; k++) renew_cell(p, cells, b, k, rows + k * p->P);
    }
}

/* exp(2 z) of a sample; returns whether its cells must be taken the slow way. */
static int begin_logits(const Problem *p, Cells *cells, int64_t sample, const real *z) {
    ivec outside = {0};
    for (int64_t i = 0; i < p->P; i += VL) {
        vec x = 2 * load_n(z + i, p->P - i), inside = clamp(x, HALF_LIMIT);
        outside |= x != inside;
        store(cells->e + i, vexp(inside));
    }
    return cells->wilds[sample] > 0 || any(outside);
}

/* The slow way: exp(2 (W_m M[k] + z)). */
static const real *exact_row(const Problem *p, Cells *cells, const real *content, int64_t k,
                             const real *z) {
    for (int64_t i = 0; i < p->P; i++)
        cells->exact[i] = 2 * (dot(p->read_W_c_PC + i * p->C, content, p->C) + z[i] +
                               p->address_KP[k * p->P + i]);
    for (int64_t i = 0; i < cells->width; i += VL)
        store(cells->exact + i, vexp(load(cells->exact + i)));
    return cells->exact;
}

static void logits(const Problem *p, Cells *cells, int64_t sample, const real *content,
                   const real *z, real *pi) {
    int64_t width = cells->width, K = p->K, k = 0;
    const real *E = cells->E + sample * K * width, *a = cells->a, *e = cells->e;
    if (begin_logits(p, cells, sample, z)) {
        for (; k < K; k++) {
            const real *row = exact_row(p, cells, content + k * p->C, k, z);
            vec s = {0};
            for (int64_t i = 0; i < width; i += VL) s += load(a + i) * reciprocal(1 + load(row + i));
            pi[k] = sum(s);
        }
    }
    for (; k + 4 <= K; k += 4) {
        const real *row = E + k * width;
        vec s[4] = {{0}, {0}, {0}, {0}};
        for (int64_t i = 0; i < width; i += VL) {
            vec ai = load(a + i), ei = load(e + i);
            UNROLLED
            for (int64_t j = 0; j < 4; j++)
                s[j] += ai * reciprocal(1 + load(row + j * width + i) * ei);
        }
        sum_4(s[0], s[1], s[2], s[3], pi + k);
    }
    for (; k < K; k++) {
        vec s = {0};
        for (int64_t i = 0; i < width; i += VL)
            s += load(a + i) * reciprocal(1 + load(E + k * width + i) * load(e + i));
        pi[k] = sum(s);
    }
    for (k = 0; k < K; k++) pi[k] = cells->a_sum - 2 * pi[k];
}

/* Backward: dpi becomes the gradient of z, which replaces z, and adds to those of a and, in D, of the
   rows W_m M (divided by 4 a). With y = 1 / (1 + E exp(2 z)): tanh = 1 - 2 y, 1 - tanh^2 = 4 y (1 - y). */
static void logits_backward(const Problem *p, Cells *cells, int64_t sample, const real *content,
                            const real *dpi, real *z, real *D, real *da) {
    int64_t K = p->K, P = p->P, width = cells->width;
    const real *E = cells->E + sample * K * width;
    int wild = begin_logits(p, cells, sample, z);
    real total = 0;
    for (int64_t k = 0; k < K; k++) {
        total += dpi[k];
        if (!wild) continue;
        const real *row = exact_row(p, cells, content + k * p->C, k, z);
        copy(cells->E + (sample * K + k) * width, row, width); /* for now; put right below */
    }
    for (int64_t i = 0; i < P; i += VL) {
        int64_t n = P - i;
        vec e = wild ? 1 - (vec){0} : load(cells->e + i), dz = {0}, dy_sum = {0};
        for (int64_t k = 0; k < K; k++) {
            vec y = reciprocal(1 + load(E + k * width + i) * e);
            vec dy = dpi[k] * y, d = dy - dy * y;
            store(D + k * width + i, load(D + k * width + i) + d);
            dz += d;
            dy_sum += dy;
        }
        store_n(da + i, load_n(da + i, n) + (total - 2 * dy_sum), n);
        store_n(z + i, 4 * load(cells->a + i) * dz, n);
    }
    if (!wild) return;
    real *row = cells->exact;
    for (int64_t k = 0; k < K; k++) {
        for (int64_t i = 0; i < P; i++)
            row[i] = dot(p->read_W_c_PC + i * p->C, content + k * p->C, p->C);
        renew_cell(p, cells, sample, k, row);
    }
}
