/* The read logits, Eq. (4): pi[k] = a . tanh(W_m M[k] + z), where z is what all cells share.
 *
 * Each cell keeps U = 2 W_m M[k] and E = exp(U), and only the written row is renewed: then
 * tanh(W_m M[k] + z) = 1 - 2 / (1 + E exp(2 z)) takes no exponential per cell. Where that product could
 * overflow, which is usual in trained models, the cells of the sample take exp(U + 2 z) instead.
 *
 * Cells are filled in order. Those that are still empty differ by their address alone: all samples
 * share their rows. */

#define HALF_LIMIT ((EXP_LIMIT - 1) / 2)

typedef struct {
    int64_t width;   /* P, padded to whole vectors */
    int64_t *filled; /* [sample]: how many cells have a row of their own */
    real *U, *E;     /* [sample][cell][width]; of the filled ones */
    uint8_t *wild;   /* [sample][cell]: too large for the product of exponentials */
    int64_t *wilds;  /* [sample]: how many of its filled cells are */
    real *empty_E;   /* [cell][width]; of the empty ones */
    int64_t *empty_wilds; /* [cell]: how many of them are wild, from this one on */
    real *a, *e, *exact;  /* padded: a, exp(2 z), rows in place of E */
    real a_sum;
} Cells;

/* E of a row U. Returns whether it is wild. */
static int exponentials(const real *U, int64_t width, real *E) {
    ivec outside = {0};
    for (int64_t i = 0; i < width; i += VL) {
        vec x = load(U + i), inside = clamp(x, HALF_LIMIT);
        outside |= x != inside; /* also true of what is not a number */
        store(E + i, vexp(inside));
    }
    return any(outside);
}

/* U of one row W_m M[k]; without `row` the cell is empty. */
static void make_row(const Problem *p, real *U, int64_t k, const real *row) {
    for (int64_t i = 0; i < p->P; i += VL) {
        int64_t n = p->P - i;
        vec x = load_n(p->address_KP + k * p->P + i, n);
        if (row) x += load_n(row + i, n);
        store(U + i, 2 * x);
    }
}

static Cells take_cells(Arena *arena, const Problem *p, int64_t M) {
    Cells cells = {.width = (p->P + VL - 1) / VL * VL};
    cells.filled = TAKE_ZEROS(arena, int64_t, M);
    cells.U = TAKE(arena, real, M * p->K * cells.width);
    cells.E = TAKE(arena, real, M * p->K * cells.width);
    cells.wild = TAKE_ZEROS(arena, uint8_t, M * p->K);
    cells.wilds = TAKE_ZEROS(arena, int64_t, M);
    cells.empty_E = TAKE(arena, real, p->K * cells.width);
    cells.empty_wilds = TAKE_ZEROS(arena, int64_t, p->K + 1);
    cells.a = TAKE_ZEROS(arena, real, cells.width);
    cells.e = TAKE(arena, real, cells.width);
    cells.exact = TAKE(arena, real, p->K * cells.width);
    if (!arena->start) return cells;
    for (int64_t i = 0; i < p->P; i++) {
        cells.a[i] = p->a_P[i];
        cells.a_sum += p->a_P[i];
    }
    for (int64_t k = p->K - 1; k >= 0 && !p->content0_BKC; k--) {
        make_row(p, cells.exact, k, NULL);
        int wild = exponentials(cells.exact, cells.width, cells.empty_E + k * cells.width);
        cells.empty_wilds[k] = cells.empty_wilds[k + 1] + wild;
    }
    return cells;
}

/* Renew one cell; `row` is W_m M[k] of its content. */
static void renew_cell(const Problem *p, Cells *cells, int64_t sample, int64_t k, const real *row) {
    int64_t place = sample * p->K + k;
    real *U = cells->U + place * cells->width;
    make_row(p, U, k, row);
    int wild = exponentials(U, cells->width, cells->E + place * cells->width);
    cells->wilds[sample] += wild - cells->wild[place];
    cells->wild[place] = (uint8_t)wild;
}

/* The last of the filled cells is empty again. */
static void empty_last_cell(const Problem *p, Cells *cells, int64_t sample) {
    int64_t place = sample * p->K + --cells->filled[sample];
    cells->wilds[sample] -= cells->wild[place];
    cells->wild[place] = 0;
}

/* The filled cells of a sample; `rows` has room for K x P. */
static void renew_all(const Problem *p, const Packed *W_c, Cells *cells, const real *content,
                      int64_t sample, real *rows) {
    product(cells->filled[sample], content, p->C, W_c, rows, p->P, 0);
    for (int64_t k = 0; k < cells->filled[sample]; k++)
        renew_cell(p, cells, sample, k, rows + k * p->P);
}

/* exp(2 z) of a sample; returns whether its cells need exponentials of their own. */
static int begin_logits(const Problem *p, Cells *cells, int64_t sample, const real *z) {
    ivec outside = {0};
    for (int64_t i = 0; i < p->P; i += VL) {
        vec x = 2 * load_n(z + i, p->P - i), inside = clamp(x, HALF_LIMIT);
        outside |= x != inside;
        store(cells->e + i, vexp(inside));
    }
    return cells->wilds[sample] + cells->empty_wilds[cells->filled[sample]] > 0 || any(outside);
}

enum { GROUP = 4 }; /* as many vectors of the rows are taken at a time */

/* exp(U + 2 z) of some vectors of a row. */
static inline ALWAYS_INLINE void exact_part(const int vectors, const real *U, const real *z,
                                            int64_t left, real *to) {
    vec x[GROUP];
    UNROLLED
    for (int j = 0; j < vectors; j++)
        x[j] = load(U + j * VL) + 2 * load_n(z + j * VL, left - j * VL);
    exp_each(x, vectors);
    UNROLLED
    for (int j = 0; j < vectors; j++) store(to + j * VL, x[j]);
}

/* exp(U + 2 z) of all cells of a sample, a row each. */
static void exact_rows(const Problem *p, const Cells *cells, int64_t sample, const real *z,
                       real *to) {
    int64_t width = cells->width;
    for (int64_t k = 0; k < p->K; k++, to += width) {
        const real *U = cells->U + (sample * p->K + k) * width;
        if (k >= cells->filled[sample]) make_row(p, to, k, NULL), U = to;
        int64_t i = 0;
        for (; i + GROUP * VL <= width; i += GROUP * VL)
            exact_part(GROUP, U + i, z + i, p->P - i, to + i);
        for (; i < width; i += VL) exact_part(1, U + i, z + i, p->P - i, to + i);
    }
}

/* The logits of some rows: a . tanh = a_sum - 2 a . 1 / (1 + E exp(2 z)). */
static void sum_rows(const Cells *cells, const real *E, int64_t rows, real *to) {
    int64_t width = cells->width, k = 0;
    const real *a = cells->a, *e = cells->e;
    for (; k + 4 <= rows; k += 4) {
        const real *row = E + k * width;
        vec s[4] = {{0}, {0}, {0}, {0}};
        for (int64_t i = 0; i < width; i += VL) {
            vec ai = load(a + i), ei = load(e + i);
            UNROLLED
            for (int64_t j = 0; j < 4; j++)
                s[j] += ai * reciprocal(1 + load(row + j * width + i) * ei);
        }
        sum_4(s[0], s[1], s[2], s[3], to + k);
        for (int j = 0; j < 4; j++) to[k + j] = cells->a_sum - 2 * to[k + j];
    }
    for (; k < rows; k++) {
        vec s = {0};
        for (int64_t i = 0; i < width; i += VL)
            s += load(a + i) * reciprocal(1 + load(E + k * width + i) * load(e + i));
        to[k] = cells->a_sum - 2 * sum(s);
    }
}

static void logits(const Problem *p, Cells *cells, int64_t sample, const real *z, real *pi) {
    int64_t width = cells->width, K = p->K, filled = cells->filled[sample];
    if (begin_logits(p, cells, sample, z)) {
        exact_rows(p, cells, sample, z, cells->exact);
        for (int64_t i = 0; i < width; i += VL) store(cells->e + i, 1 - (vec){0});
        sum_rows(cells, cells->exact, K, pi);
    } else {
        sum_rows(cells, cells->E + sample * K * width, filled, pi);
        sum_rows(cells, cells->empty_E + filled * width, K - filled, pi + filled);
    }
}

typedef struct { /* rows of cells on the way back, and the gradients of their logits */
    const real *E, *dpi;
    real *D;
    int64_t count;
} Rows;

/* Backward: a group of columns, `i` being the first, of some rows. With y = 1 / (1 + E exp(2 z)):
   tanh = 1 - 2 y, 1 - tanh^2 = 4 y (1 - y). Adds to dz the gradient of z divided by 4 a, to D that of
   each row, likewise, and to dy that of y times y. */
static inline ALWAYS_INLINE void back_group(const int vectors, Rows rows, int64_t width, int64_t i,
                                            const vec *e, vec *dz, vec *dy) {
    const real *E = rows.E + i;
    real *D = rows.D + i;
    for (int64_t k = 0; k < rows.count; k++, E += width, D += width) {
        UNROLLED
        for (int j = 0; j < vectors; j++) {
            vec y = reciprocal(1 + load(E + j * VL) * e[j]);
            vec up = rows.dpi[k] * y, d = up - up * y;
            store(D + j * VL, load(D + j * VL) + d);
            dz[j] += d;
            dy[j] += up;
        }
    }
}

/* The same of the filled and of the empty rows; then z becomes its gradient, and da is added to. */
static inline ALWAYS_INLINE void back_columns(const int vectors, const Problem *p,
                                              const Cells *cells, const Rows *rows, int64_t i,
                                              int wild, real total, real *z, real *da) {
    vec e[GROUP], dz[GROUP], dy[GROUP];
    UNROLLED
    for (int j = 0; j < vectors; j++) {
        e[j] = wild ? 1 - (vec){0} : load(cells->e + i + j * VL);
        dz[j] = dy[j] = (vec){0};
    }
    for (int part = 0; part < 2; part++)
        back_group(vectors, rows[part], cells->width, i, e, dz, dy);
    UNROLLED
    for (int j = 0; j < vectors; j++) {
        int64_t at = i + j * VL, n = p->P - at;
        store_n(da + at, load_n(da + at, n) + (total - 2 * dy[j]), n);
        store_n(z + at, 4 * load(cells->a + at) * dz[j], n);
    }
}

/* dpi becomes the gradient of z, which replaces z, and adds to those of a and, in D and empty_D, of
   the rows W_m M (divided by 4 a). */
static void logits_backward(const Problem *p, Cells *cells, int64_t sample, const real *dpi,
                            real *z, real *D, real *empty_D, real *da) {
    int64_t K = p->K, width = cells->width, filled = cells->filled[sample], wide = GROUP * VL;
    real *E = cells->E + sample * K * width;
    int wild = begin_logits(p, cells, sample, z);
    real total = 0;
    for (int64_t k = 0; k < K; k++) total += dpi[k];
    if (wild) exact_rows(p, cells, sample, z, E); /* in place of E, which comes back below */
    Rows rows[2] = {{E, dpi, D, filled},
                    {(wild ? E : cells->empty_E) + filled * width, dpi + filled,
                     empty_D + filled * width, K - filled}};
    for (int64_t i = 0; i < width; i += wide) {
        int64_t left = (width - i) / VL;
        if (left >= 4) back_columns(4, p, cells, rows, i, wild, total, z, da);
        else if (left == 3) back_columns(3, p, cells, rows, i, wild, total, z, da);
        else if (left == 2) back_columns(2, p, cells, rows, i, wild, total, z, da);
        else back_columns(1, p, cells, rows, i, wild, total, z, da);
    }
    for (int64_t k = 0; k < filled && wild; k++)
        exponentials(cells->U + (sample * K + k) * width, width, E + k * width);
}
