/* A whole sequence of TARDIS (or of the LSTM baseline), forward and backward: the equations of
 * tardis_core/models in the same order. Each share of the batch goes through all steps by itself.
 *
 * What makes it fast, and is not in the readable model:
 *   - W_m M[i] of the read logits is kept a cell, and only the written row is renewed;
 *   - it is kept as E = exp(2 W_m M[i]), so that tanh(W_m M[i] + z) = 1 - 2 / (1 + E exp(2 z)) takes
 *     no exponential a cell;
 *   - W_u u is a running sum over the reads;
 *   - W_h h + W_r r is one product with [h | r], and the candidate's one with [beta h | alpha r];
 *   - the history of the memory is not stored: an overwritten row is an earlier micro-state. */

/* |2 W_m M[i]| and |2 z| up to this can be multiplied as exponentials. */
#define HALF_LIMIT ((EXP_LIMIT - 1) / 2)

static const real RESET_TEMPERATURE = (real)0.3, PENALTY = 100, NORM_EPSILON = (real)1e-5;

typedef struct { /* the matrices in the order that the products want them */
    Packed gates, candidate, attention, micro, row;
    Packed gates_back, candidate_back, attention_back, micro_back, row_back;
} Weights;

/* ---------------------------------------------------------------- the cells, for the read logits */

typedef struct {
    int64_t width;   /* P, padded to whole vectors */
    real *E;         /* [sample][cell][P]: exp(2 W_m M[i]) */
    uint8_t *wild;   /* [sample][cell]: too large for the product of exponentials */
    int64_t *wilds;  /* [sample]: how many of its cells are */
    real *a, *e, *exact; /* padded: a, exp(2 z), a row in place of E */
    real a_sum;
} Cells;

/* Renew one cell from W_m M[i] of its content. */
static void renew_cell(const Problem *p, Cells *cells, int64_t sample, int64_t k, const real *row) {
    int64_t place = sample * p->K + k;
    real *E = cells->E + place * cells->width;
    ivec outside = {0};
    for (int64_t i = 0; i < p->P; i += VL) {
        int64_t n = p->P - i;
        vec x = 2 * (load_n(row + i, n) + load_n(p->address_KP + k * p->P + i, n));
        vec inside = clamp(x, HALF_LIMIT);
        outside |= x != inside;
        store_n(E + i, vexp(inside), n);
    }
    int wild = any(outside);
    cells->wilds[sample] += wild - cells->wild[place];
    cells->wild[place] = (uint8_t)wild;
}

/* exp(2 z) of a sample; returns whether its cells must be taken exactly. */
static int begin_logits(const Problem *p, Cells *cells, int64_t sample, const real *z) {
    ivec outside = {0};
    for (int64_t i = 0; i < p->P; i += VL) {
        vec x = 2 * load_n(z + i, p->P - i), inside = clamp(x, HALF_LIMIT);
        outside |= x != inside; /* also true of what is not a number */
        store(cells->e + i, vexp(inside));
    }
    return cells->wilds[sample] > 0 || any(outside);
}

/* exp(2 (W_m M[k] + z)) the slow way: for numbers too large for the product. */
static const real *exact_row(const Problem *p, Cells *cells, const real *content, int64_t k,
                             const real *z) {
    for (int64_t i = 0; i < p->P; i++)
        cells->exact[i] = 2 * (dot(p->read_W_c_PC + i * p->C, content, p->C) + z[i] +
                               p->address_KP[k * p->P + i]);
    for (int64_t i = 0; i < cells->width; i += VL)
        store(cells->exact + i, vexp(load(cells->exact + i)));
    return cells->exact;
}

/* Eq. (4): pi[k] = a . tanh(W_m M[k] + z), for all cells of a sample. */
static void logits(const Problem *p, Cells *cells, int64_t sample, const real *content,
                   const real *z, real *pi) {
    int64_t width = cells->width, k = 0;
    const real *E = cells->E + sample * p->K * width, *a = cells->a, *e = cells->e;
    if (begin_logits(p, cells, sample, z)) {
        for (; k < p->K; k++) {
            const real *row = exact_row(p, cells, content + k * p->C, k, z);
            vec s = {0};
            for (int64_t i = 0; i < width; i += VL) s += load(a + i) * reciprocal(1 + load(row + i));
            pi[k] = cells->a_sum - 2 * sum(s);
        }
        return;
    }
    for (; k + 4 <= p->K; k += 4) {
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
    for (; k < p->K; k++) {
        vec s = {0};
        for (int64_t i = 0; i < width; i += VL)
            s += load(a + i) * reciprocal(1 + load(E + k * width + i) * load(e + i));
        pi[k] = sum(s);
    }
    for (k = 0; k < p->K; k++) pi[k] = cells->a_sum - 2 * pi[k];
}

/* ---------------------------------------------------------------- memory of a share */

typedef struct {
    char *start; /* NULL while only the size is asked for */
    int64_t used;
} Arena;

static void *take(Arena *arena, int64_t bytes) {
    void *here = arena->start ? arena->start + arena->used : NULL;
    arena->used += (bytes + 63) / 64 * 64;
    return here;
}
#define TAKE(arena, type, count) ((type *)take(arena, (int64_t)sizeof(type) * (count)))

static Cells take_cells(Arena *arena, const Problem *p, int64_t M) {
    Cells cells = {.width = (p->P + VL - 1) / VL * VL};
    cells.E = TAKE(arena, real, M * p->K * cells.width);
    cells.wild = TAKE(arena, uint8_t, M * p->K);
    cells.wilds = TAKE(arena, int64_t, M);
    cells.a = TAKE(arena, real, cells.width);
    cells.e = TAKE(arena, real, cells.width);
    cells.exact = TAKE(arena, real, cells.width);
    if (arena->start) {
        for (int64_t i = 0; i < p->P; i++) {
            cells.a[i] = p->a_P[i];
            cells.a_sum += p->a_P[i];
        }
    }
    return cells;
}

/* All cells from their contents; `rows` has room for M x K x P. */
static void renew_all(const Problem *p, const Weights *w, Cells *cells, const real *content,
                      int64_t M, real *rows) {
    for (int64_t b = 0; b < M; b++) {
        product(p->K, content + b * p->K * p->C, p->C, &w->row, rows, p->P, 0);
        for (int64_t k = 0; k < p->K; k++) renew_cell(p, cells, b, k, rows + k * p->P);
    }
}

/* ---------------------------------------------------------------- the controller */

/* Layer normalisation of one gate in place; returns one over its standard deviation. */
static real normalise(real *z, int64_t H) {
    vec s = {0}, s2 = {0};
    for (int64_t j = 0; j < H; j += VL) s += load_n(z + j, H - j);
    real mean = sum(s) / (real)H;
    for (int64_t j = 0; j < H; j += VL) {
        vec x = load_n(z + j, H - j) - mean;
        store_n(z + j, x, H - j);
        x = load_n(z + j, H - j); /* zero beyond H */
        s2 += x * x;
    }
    real scale = 1 / square_root(sum(s2) / (real)H + NORM_EPSILON);
    for (int64_t j = 0; j < H; j += VL) store_n(z + j, scale * load_n(z + j, H - j), H - j);
    return scale;
}

/* f, i, o or g from what `gates` holds: their own value, or the normalised pre-activation. */
static inline vec gate(const Problem *p, const real *z, int64_t which, int64_t j, int made) {
    int64_t at = which * p->H + j, n = p->H - j;
    vec x = load_n(z + at, n);
    if (p->norm) x = x * load_n(p->gain_4H + at, n) + load_n(p->b_G + at, n);
    else if (made) return x;
    return which == 3 ? vtanh(x) : sigmoid(x);
}

/* Eqs. (7) to (10) from the pre-activations of one sample on. */
static void cell_forward(const Problem *p, real *z, const real *dropout, const real *c, real *new_c,
                         real *new_h, real *norm_scale) {
    int64_t H = p->H;
    if (p->norm)
        for (int64_t i = 0; i < 4; i++) {
            real scale = normalise(z + i * H, H);
            if (norm_scale) norm_scale[i] = scale;
        }
    for (int64_t j = 0; j < H; j += VL) {
        int64_t n = H - j;
        vec f = gate(p, z, 0, j, 0), i = gate(p, z, 1, j, 0), o = gate(p, z, 2, j, 0);
        vec g = gate(p, z, 3, j, 0);
        if (p->keep && !p->norm) {
            store_n(z + j, f, n);
            store_n(z + H + j, i, n);
            store_n(z + 2 * H + j, o, n);
            store_n(z + 3 * H + j, g, n);
        }
        if (dropout) g *= load_n(dropout + j, n);
        vec next = f * load_n(c + j, n) + i * g;
        store_n(new_c + j, next, n);
        store_n(new_h + j, o * vtanh(next), n);
    }
}

/* The gradient of a normalised vector becomes that of the vector itself. */
static void normalise_backward(real *dy, const real *normal, real scale, int64_t H) {
    vec s = {0}, s2 = {0};
    for (int64_t j = 0; j < H; j += VL) {
        vec d = load_n(dy + j, H - j);
        s += d;
        s2 += d * load_n(normal + j, H - j);
    }
    real mean = sum(s) / (real)H, along = sum(s2) / (real)H;
    for (int64_t j = 0; j < H; j += VL) {
        vec d = load_n(dy + j, H - j) - mean - along * load_n(normal + j, H - j);
        store_n(dy + j, scale * d, H - j);
    }
}

/* From dh and dc of one sample to dz, which replaces z, and to dc of the step before. */
static void cell_backward(const Problem *p, real *z, const real *dropout, const real *c,
                          const real *dh, real *dc, const real *norm_scale, real *dgain,
                          real *dbias, real *scratch) {
    int64_t H = p->H;
    real *dz = p->norm ? scratch : z;
    for (int64_t j = 0; j < H; j += VL) {
        int64_t n = H - j;
        vec f = gate(p, z, 0, j, 1), i = gate(p, z, 1, j, 1), o = gate(p, z, 2, j, 1);
        vec g = gate(p, z, 3, j, 1), before = load_n(c + j, n);
        vec kept = dropout ? load_n(dropout + j, n) : 1 - (vec){0};
        vec squashed = vtanh(f * before + i * (g * kept));
        vec up = load_n(dh + j, n);
        vec down = load_n(dc + j, n) + up * o * (1 - squashed * squashed);
        store_n(dz + j, down * before * f * (1 - f), n);
        store_n(dz + H + j, down * g * kept * i * (1 - i), n);
        store_n(dz + 2 * H + j, up * squashed * o * (1 - o), n);
        store_n(dz + 3 * H + j, down * i * kept * (1 - g * g), n);
        store_n(dc + j, down * f, n);
    }
    if (!p->norm) return;
    for (int64_t i = 0; i < 4; i++) {
        real *d = dz + i * H, *normal = z + i * H;
        for (int64_t j = 0; j < H; j += VL) {
            int64_t n = H - j, at = i * H + j;
            vec x = load_n(d + j, n);
            store_n(dbias + at, load_n(dbias + at, n) + x, n);
            store_n(dgain + at, load_n(dgain + at, n) + x * load_n(normal + j, n), n);
            store_n(d + j, x * load_n(p->gain_4H + at, n), n);
        }
        normalise_backward(d, normal, norm_scale[i], H);
        for (int64_t j = 0; j < H; j += VL) store_n(normal + j, load_n(d + j, H - j), H - j);
    }
}

/* ---------------------------------------------------------------- forward */

typedef struct {
    real *hr, *scaled; /* [h | r] and [beta h | alpha r] */
    real *attention, *usage, *micro, *row, *rows;
    double *squares;  /* sum over the cells of reads^2 */
    double *total;    /* sum over the cells of reads */
    int64_t *last;    /* the cell read last, or -1 */
    int32_t *writer;  /* [sample][cell]: the step that wrote it */
    real *W_u;        /* [cell][P]: the columns of W_u, less their mean: u is centred */
    Cells cells;
} Forward;

static Forward take_forward(Arena *arena, const Problem *p, int64_t M) {
    int64_t S = p->H + p->A + p->C;
    Forward f = {0};
    f.hr = TAKE(arena, real, M * S);
    f.scaled = TAKE(arena, real, p->reset ? M * S : 0);
    f.attention = TAKE(arena, real, M * p->P);
    f.usage = TAKE(arena, real, M * p->P);
    f.micro = TAKE(arena, real, M * p->C);
    f.row = TAKE(arena, real, M * p->P);
    f.rows = TAKE(arena, real, p->K * p->P);
    f.squares = TAKE(arena, double, M);
    f.total = TAKE(arena, double, M);
    f.last = TAKE(arena, int64_t, M);
    f.writer = TAKE(arena, int32_t, M * p->K);
    f.W_u = TAKE(arena, real, p->K * p->P);
    f.cells = take_cells(arena, p, M);
    return f;
}

/* Algorithm 1, lines of the read: choose a cell, read it. */
static void read_memory(const Problem *p, Forward *f, int64_t t, int64_t b0, int64_t b) {
    int64_t K = p->K, P = p->P, C = p->C, A = p->A, S = p->H + A + C;
    int64_t at = t * p->B + b0 + b;
    Cells *cells = &f->cells;

    /* Eq. (6): u is the reads so far, centred and divided by their deviation; the columns of W_u
       are centred already. */
    double mean = f->total[b] / (double)K;
    double variance = f->squares[b] / (double)K - mean * mean;
    real usage_scale = (real)(1 / sqrt((variance > 0 ? variance : 0) + 1e-5));
    real *common = p->common_TBP + at * P;
    for (int64_t i = 0; i < P; i += VL) {
        int64_t n = P - i;
        vec z = load_n(common + i, n) + load_n(f->attention + b * P + i, n) +
                usage_scale * load_n(f->usage + b * P + i, n);
        store_n(common + i, z, n);
    }
    if (p->keep) p->usage_scale_TB[at] = usage_scale;

    const real *content = p->content_BKC + (b0 + b) * K * C;
    const real *noise = p->read_noise_TBK ? p->read_noise_TBK + at * K : NULL;
    real *pi = p->pi_TBK + at * K;
    int64_t last = f->last[b], chosen = 0;
    logits(p, cells, b, content, common, pi);
    if (last >= 0) pi[last] -= PENALTY;
    for (int64_t k = 1; k < K; k++)
        if (noise ? pi[k] + noise[k] > pi[chosen] + noise[chosen] : pi[k] > pi[chosen]) chosen = k;
    p->read_TB[at] = chosen;

    /* Eq. (1): both parts of the cell. */
    real *r = p->r_TBQ + at * (A + C);
    copy(r, p->address_KA + chosen * A, A);
    copy(r + A, content + chosen * C, C);
    copy(f->hr + b * S + p->H, r, A + C);

    /* tau(h) is of no use forward: backward wants its logit. */
    if (p->soft && p->keep)
        p->tau_TB[at] = dot(p->w_tau_H, f->hr + b * S, p->H) + *p->b_tau;
}

/* Eq. (8), and the two sources of the candidate scaled by it. */
static void reset_gates(const Problem *p, Forward *f, int64_t t, int64_t b0, int64_t b) {
    int64_t H = p->H, S = H + p->A + p->C, G = 4 * H + 2, at = t * p->B + b0 + b;
    const real *hr = f->hr + b * S;
    for (int64_t i = 0; i < 2; i++) {
        real x = dot(p->W_h_GH + (4 * H + i) * H, hr, H) + p->gates_TBG[at * G + 4 * H + i] +
                 dot(p->W_r_GQ + (4 * H + i) * (S - H), hr + H, S - H);
        if (p->norm) x += p->b_G[4 * H + i];
        if (p->reset_noise_TB2) x += p->reset_noise_TB2[at * 2 + i];
        p->reset_TB2[at * 2 + i] = sigmoid_1(x / RESET_TEMPERATURE);
    }
    real alpha = p->reset_TB2[at * 2], beta = p->reset_TB2[at * 2 + 1];
    real *scaled = f->scaled + b * S;
    for (int64_t j = 0; j < H; j++) scaled[j] = beta * hr[j];
    for (int64_t j = H; j < S; j++) scaled[j] = alpha * hr[j];
}

/* Algorithm 1, lines of the write; the row of the read logits is renewed with it. */
static void write_memory(const Problem *p, const Weights *w, Forward *f, const real *h, int64_t t,
                         int64_t b0, int64_t M) {
    int64_t K = p->K, C = p->C, P = p->P;
    real *micro = p->keep ? p->micro_TBC + (t * p->B + b0) * C : f->micro;
    product(M, h, p->H, &w->micro, micro, C, 0);
    product(M, micro, C, &w->row, f->row, P, 0);
    for (int64_t b = 0; b < M; b++) {
        int64_t at = t * p->B + b0 + b, sample = b0 + b;
        int64_t chosen = p->read_TB[at], steps = p->steps_B[sample];
        int64_t place = steps < K ? steps : chosen;
        p->written_TB[at] = place;
        if (p->mask_TB && !p->mask_TB[at]) continue;
        if (p->keep) {
            p->before_TB[at] = f->writer[b * K + place];
            f->writer[b * K + place] = (int32_t)t;
        }
        copy(p->content_BKC + (sample * K + place) * C, micro + b * C, C);
        renew_cell(p, &f->cells, b, place, f->row + b * P);
        real *reads = p->reads_BK + sample * K;
        f->squares[b] += 2 * (double)reads[chosen] + 1;
        f->total[b] += 1;
        reads[chosen] += 1;
        add_scaled(f->usage + b * P, f->W_u + chosen * P, 1, P);
        f->last[b] = chosen;
        p->steps_B[sample] = steps + 1;
    }
}

/* The memory at the start, and what is kept beside it. */
static void begin_memory(const Problem *p, const Weights *w, Forward *f, int64_t b0, int64_t M) {
    int64_t K = p->K, C = p->C, P = p->P;
    for (int64_t i = 0; i < P; i++) {
        const real *row = p->read_W_u_PK + i * K;
        real mean = 0;
        for (int64_t k = 0; k < K; k++) mean += row[k] / (real)K;
        for (int64_t k = 0; k < K; k++) f->W_u[k * P + i] = row[k] - mean;
    }
    int carried = p->content0_BKC != NULL;
    for (int64_t b = 0; b < M; b++) {
        int64_t sample = b0 + b;
        real *content = p->content_BKC + sample * K * C, *reads = p->reads_BK + sample * K;
        if (carried) {
            copy(content, p->content0_BKC + sample * K * C, K * C);
            copy(reads, p->reads0_BK + sample * K, K);
        } else {
            zero(content, K * C);
            zero(reads, K);
        }
        p->steps_B[sample] = carried ? p->steps0_B[sample] : 0;
        f->last[b] = -1;
        for (int64_t k = 0; k < K; k++) {
            f->writer[b * K + k] = -1;
            if (!carried) continue;
            if (p->last0_BK[sample * K + k] > 0) f->last[b] = k;
            f->total[b] += (double)reads[k];
            f->squares[b] += (double)reads[k] * (double)reads[k];
            add_scaled(f->usage + b * P, f->W_u + k * P, reads[k], P);
        }
    }
    renew_all(p, w, &f->cells, p->content_BKC + b0 * K * C, M, f->rows);
}

static void forward_share(const Problem *p, const Weights *w, Arena *arena, int64_t b0, int64_t M) {
    int64_t B = p->B, H = p->H, K = p->K, P = p->P, S = H + p->A + p->C;
    int64_t G = 4 * H + (p->reset ? 2 : 0);
    Forward f = take_forward(arena, p, M);
    copy(p->h_TBH + b0 * H, p->h0_BH + b0 * H, M * H);
    copy(p->c_TBH + b0 * H, p->c0_BH + b0 * H, M * H);
    if (K) begin_memory(p, w, &f, b0, M);

    for (int64_t t = 0; t < p->T; t++) {
        int64_t at = t * B + b0;
        const real *h = p->h_TBH + at * H;
        real *gates = p->gates_TBG + at * G;
        for (int64_t b = 0; b < M; b++) copy(f.hr + b * S, h + b * H, H);
        if (K) {
            product(M, f.hr, S, &w->attention, f.attention, P, 0);
            for (int64_t b = 0; b < M; b++) read_memory(p, &f, t, b0, b);
        }
        if (p->reset)
            for (int64_t b = 0; b < M; b++) reset_gates(p, &f, t, b0, b);
        product(M, f.hr, S, &w->gates, gates, G, 1);
        product(M, p->reset ? f.scaled : f.hr, S, &w->candidate, gates + 3 * H, G, 1);

        const real *c = p->c_TBH + (p->keep ? at : b0) * H;
        real *new_c = p->c_TBH + (p->keep ? at + B : b0) * H;
        real *state_h = p->h_TBH + (at + B) * H;
        real *new_h = p->h_out_TBH ? p->h_out_TBH + at * H : state_h;
        for (int64_t b = 0; b < M; b++) {
            const real *dropout = p->dropout_TBH ? p->dropout_TBH + (at + b) * H : NULL;
            real *norm_scale = p->norm && p->keep ? p->norm_scale_TB4 + (at + b) * 4 : NULL;
            int masked = p->mask_TB && !p->mask_TB[at + b];
            /* A masked step is seen in the output alone: its c goes where h of the state will. */
            cell_forward(p, gates + b * G, dropout, c + b * H,
                         masked ? state_h + b * H : new_c + b * H, new_h + b * H, norm_scale);
            if (!p->mask_TB) continue;
            copy(state_h + b * H, masked ? h + b * H : new_h + b * H, H);
            if (masked && p->keep) copy(new_c + b * H, c + b * H, H);
        }
        if (K) write_memory(p, w, &f, new_h, t, b0, M);
    }

    copy(p->h_BH + b0 * H, p->h_TBH + (p->T * B + b0) * H, M * H);
    copy(p->c_BH + b0 * H, p->c_TBH + (p->keep ? p->T * B + b0 : b0) * H, M * H);
    for (int64_t b = 0; b < M && K; b++) {
        zero(p->last_BK + (b0 + b) * K, K);
        if (f.last[b] >= 0) p->last_BK[(b0 + b) * K + f.last[b]] = 1;
    }
}

/* ---------------------------------------------------------------- backward */

typedef struct {
    real *back;          /* gradient of [h | r] */
    real *held;          /* of the h and c that pass a masked step by */
    real *content;       /* the memory as it was before the step */
    real *D;             /* [sample][cell][P]: gradient of W_m M[i] since it was written, over 4 a */
    real *gathered, *row, *rows, *dcommon, *da, *normal;
    real *dpi, *score, *weight, *dweight; /* a cell, padded */
    real *later;         /* [sample][P]: gradient of W_u's running sum from the later steps */
    Cells cells;
} Backward;

/* A share's part of the gradients that all samples add to. */
typedef struct {
    real *a, *address, *W_u, *gain, *bias;
} Sums;

static Sums take_sums(Arena *arena, const Problem *p) {
    int64_t KP = p->K * p->P, gates = p->norm ? 4 * p->H : 0;
    Sums sums;
    sums.a = TAKE(arena, real, p->P);
    sums.address = TAKE(arena, real, KP);
    sums.W_u = TAKE(arena, real, KP);
    sums.gain = TAKE(arena, real, gates);
    sums.bias = TAKE(arena, real, gates);
    return sums;
}

static Backward take_backward(Arena *arena, const Problem *p, int64_t M) {
    int64_t S = p->H + p->A + p->C, padded = (p->P + VL - 1) / VL * VL;
    int64_t cells = (p->K + VL - 1) / VL * VL;
    Backward f = {0};
    f.back = TAKE(arena, real, M * S);
    f.held = TAKE(arena, real, p->mask_TB ? 2 * M * p->H : 0);
    f.content = TAKE(arena, real, M * p->K * p->C);
    f.D = TAKE(arena, real, M * p->K * padded);
    f.gathered = TAKE(arena, real, M * p->C);
    f.row = TAKE(arena, real, M * p->P);
    f.rows = TAKE(arena, real, p->K * p->P);
    f.dcommon = TAKE(arena, real, padded);
    f.da = TAKE(arena, real, padded);
    f.normal = TAKE(arena, real, p->norm ? 4 * p->H : 0);
    f.dpi = TAKE(arena, real, cells);
    f.score = TAKE(arena, real, cells);
    f.weight = TAKE(arena, real, cells);
    f.dweight = TAKE(arena, real, cells);
    f.later = TAKE(arena, real, M * p->P);
    f.cells = take_cells(arena, p, M);
    return f;
}

/* The gradient of one row W_m M[k], which was gathered since the row was written. */
static void flush_row(const Problem *p, Backward *f, int64_t b, int64_t k, real *row,
                      real *daddress) {
    real *D = f->D + (b * p->K + k) * f->cells.width;
    for (int64_t i = 0; i < p->P; i += VL) {
        int64_t n = p->P - i, at = k * p->P + i;
        vec d = 4 * load(f->cells.a + i) * load(D + i);
        if (row) store_n(row + i, d, n);
        store_n(daddress + at, load_n(daddress + at, n) + d, n);
        store(D + i, (vec){0});
    }
}

/* What a cell held before step t wrote it: an earlier micro-state, or what the call began with. */
static const real *content_before(const Problem *p, int64_t at, int64_t sample, int64_t k) {
    int64_t before = p->before_TB[at];
    if (before >= 0) return p->micro_TBC + (before * p->B + sample) * p->C;
    return p->content0_BKC ? p->content0_BKC + (sample * p->K + k) * p->C : NULL;
}

/* Back through the write of step t: the gradient of its micro-state, and the memory before it. */
static void unwrite_memory(const Problem *p, const Weights *w, Backward *f, int64_t t, int64_t b0,
                           int64_t M, int addressed, real *daddress) {
    int64_t K = p->K, C = p->C, P = p->P, at0 = t * p->B + b0;
    real *dmicro = p->dmicro_TBC + at0 * C, *drow = p->drow_TBP + at0 * P;
    for (int64_t b = 0; b < M; b++) {
        int64_t at = at0 + b, k = p->written_TB[at];
        if (p->mask_TB && !p->mask_TB[at]) { /* nothing was written */
            zero(dmicro + b * C, C);
            if (addressed) zero(drow + b * P, P);
            continue;
        }
        real *dcontent = p->dcontent_BKC + ((b0 + b) * K + k) * C;
        copy(dmicro + b * C, dcontent, C);
        zero(dcontent, C);
        real *content = f->content + (b * K + k) * C;
        const real *before = content_before(p, at, b0 + b, k);
        if (before) copy(content, before, C);
        else zero(content, C);
        if (!addressed) continue;
        flush_row(p, f, b, k, drow + b * P, daddress);
        copy(f->gathered + b * C, content, C);
    }
    if (!addressed) return;
    product(M, f->gathered, C, &w->row, f->row, P, 0);
    for (int64_t b = 0; b < M; b++)
        if (!p->mask_TB || p->mask_TB[at0 + b])
            renew_cell(p, &f->cells, b, p->written_TB[at0 + b], f->row + b * P);
    if (p->attached) product(M, drow, P, &w->row_back, dmicro, C, 1);
}

/* Straight through: the gradient of softmax((pi + noise) tau) is added to dpi. */
static void choice_backward(const Problem *p, Backward *f, int64_t at, int64_t b, const real *dr) {
    int64_t K = p->K, A = p->A, C = p->C;
    const real *pi = p->pi_TBK + at * K, *noise = p->read_noise_TBK + at * K;
    const real *content = f->content + b * K * C;
    double x = (double)p->tau_TB[at]; /* tau = softplus(x) + 1, with torch's rule for large x */
    real tau = (real)((x > 20 ? x : log1p(exp(x))) + 1), slope = (real)(x > 20 ? 1 : 1 / (1 + exp(-x)));
    real most = -INFINITY;
    for (int64_t k = 0; k < K; k++) {
        f->score[k] = pi[k] + noise[k];
        if (f->score[k] > most) most = f->score[k];
        f->dweight[k] = 0;
    }
    add_rows_times(f->dweight, p->address_KA, dr, K, A);
    add_rows_times(f->dweight, content, dr + A, K, C);
    vec sum_weight = {0}, sum_dweight = {0}, sum_dtau = {0};
    for (int64_t k = 0; k < K; k += VL) {
        vec weight = vexp((load_n(f->score + k, K - k) - most) * tau);
        store_n(f->weight + k, weight, K - k);
        weight = load(f->weight + k); /* zero beyond K */
        sum_weight += weight;
        sum_dweight += weight * load(f->dweight + k);
    }
    real scale = 1 / sum(sum_weight), mean = sum(sum_dweight) * scale;
    for (int64_t k = 0; k < K; k += VL) {
        vec dscore = scale * load(f->weight + k) * (load(f->dweight + k) - mean);
        store(f->dpi + k, load(f->dpi + k) + tau * dscore);
        sum_dtau += dscore * load(f->score + k);
    }
    p->dtau_TB[at] = sum(sum_dtau) * slope;
}

/* Eq. (4) backward: dpi becomes the gradients of a, of the rows W_m M and of the rest, z. */
static void logits_backward(const Problem *p, Backward *f, int64_t at, int64_t b, real *da) {
    int64_t K = p->K, P = p->P, width = f->cells.width;
    real *common = p->common_TBP + at * P, *D = f->D + b * K * width, total = 0;
    const real *E = f->cells.E + b * K * width, *dpi = f->dpi;
    for (int64_t k = 0; k < K; k++) total += dpi[k];
    if (begin_logits(p, &f->cells, b, common)) {
        zero(f->dcommon, width);
        zero(f->da, width);
        for (int64_t k = 0; k < K; k++) {
            const real *row = exact_row(p, &f->cells, f->content + (b * K + k) * p->C, k, common);
            for (int64_t i = 0; i < width; i += VL) {
                vec y = reciprocal(1 + load(row + i)), slope = dpi[k] * (y - y * y);
                store(D + k * width + i, load(D + k * width + i) + slope);
                store(f->dcommon + i, load(f->dcommon + i) + slope);
                store(f->da + i, load(f->da + i) + dpi[k] * y);
            }
        }
    } else {
        for (int64_t i = 0; i < width; i += VL) {
            vec e = load(f->cells.e + i), sum_slope = {0}, sum_y = {0};
            for (int64_t k = 0; k < K; k++) {
                vec y = reciprocal(1 + load(E + k * width + i) * e); /* tanh = 1 - 2 y */
                vec dy = dpi[k] * y, slope = dy - dy * y;            /* a quarter of d (1 - tanh^2) */
                store(D + k * width + i, load(D + k * width + i) + slope);
                sum_slope += slope;
                sum_y += dy;
            }
            store(f->dcommon + i, sum_slope);
            store(f->da + i, sum_y);
        }
    }
    for (int64_t i = 0; i < P; i += VL) {
        int64_t n = P - i;
        store_n(da + i, load_n(da + i, n) + (total - 2 * load(f->da + i)), n);
        store_n(common + i, 4 * load(f->cells.a + i) * load(f->dcommon + i), n);
    }
}

/* Back through the read of step t of one sample; `dr` is the gradient of what was read. */
static void unread_memory(const Problem *p, Backward *f, int64_t at, int64_t b0, int64_t b,
                          real *dr, int addressed, Sums *sums) {
    int64_t K = p->K, A = p->A, C = p->C, P = p->P, chosen = p->read_TB[at];
    if (p->dr_TBQ) add_scaled(dr, p->dr_TBQ + at * (A + C), 1, A + C);
    add_scaled(p->dcontent_BKC + ((b0 + b) * K + chosen) * C, dr + A, 1, C);
    if (!addressed) return;

    if (p->dpi_TBK) copy(f->dpi, p->dpi_TBK + at * K, K);
    else zero(f->dpi, K);
    if (p->soft) choice_backward(p, f, at, b, dr);
    logits_backward(p, f, at, b, sums->a);

    /* W_u u is usage_scale times the sum of the columns of the reads before: a read at t takes part
       in all later steps, whose gradients `later` has gathered. */
    real *later = f->later + b * P;
    if (!p->mask_TB || p->mask_TB[at]) add_scaled(sums->W_u + chosen * P, later, 1, P);
    add_scaled(later, p->common_TBP + at * P, p->usage_scale_TB[at], P);
}

/* The gradients of alpha and beta from the way back of the candidate: (W_r^T dz) . r = dz . (W_r r).
   `back` comes in as the gradient of [beta h | alpha r] and leaves as one of [h | r]. */
static void reset_backward(const Problem *p, real *back, int64_t at) {
    int64_t H = p->H, Q = p->A + p->C, S = H + Q;
    const real *reset = p->reset_TB2 + at * 2;
    real d[2] = {dot(back + H, p->r_TBQ + at * Q, Q), dot(back, p->h_TBH + at * H, H)};
    for (int64_t j = 0; j < H; j++) back[j] *= reset[1];
    for (int64_t j = H; j < S; j++) back[j] *= reset[0];
    for (int64_t i = 0; i < 2; i++) {
        if (p->dreset_TB2) d[i] += p->dreset_TB2[at * 2 + i];
        d[i] *= reset[i] * (1 - reset[i]) / RESET_TEMPERATURE;
        p->gates_TBG[at * (4 * H + 2) + 4 * H + i] = d[i];
        add_scaled(back, p->W_h_GH + (4 * H + i) * H, d[i], H);
        add_scaled(back + H, p->W_r_GQ + (4 * H + i) * Q, d[i], Q);
    }
}

/* At the first step: what the rows and the reads that were there at the start have gathered. */
static void begin_backward(const Problem *p, const Weights *w, Backward *f, int64_t b0, int64_t b,
                           Sums *sums) {
    int64_t K = p->K, P = p->P, C = p->C, sample = b0 + b;
    real *rows = p->drow0_BKP ? p->drow0_BKP + sample * K * P : NULL;
    for (int64_t k = 0; k < K; k++) {
        flush_row(p, f, b, k, rows ? rows + k * P : NULL, sums->address);
        if (p->reads0_BK)
            add_scaled(sums->W_u + k * P, f->later + b * P, p->reads0_BK[sample * K + k], P);
    }
    if (rows && p->attached)
        product(K, rows, P, &w->row_back, p->dcontent_BKC + sample * K * C, C, 1);
}

static void backward_share(const Problem *p, const Weights *w, Arena *arena, int64_t b0,
                           int64_t M) {
    int64_t B = p->B, H = p->H, K = p->K, C = p->C, P = p->P, S = H + p->A + C;
    int64_t G = 4 * H + (p->reset ? 2 : 0);
    Sums sums = take_sums(arena, p); /* first: where `add_up` looks for it */
    Backward f = take_backward(arena, p, M);
    /* Without a gradient of the choice or of the logits, the addressing has none. */
    int addressed = K && (p->soft || p->dpi_TBK);
    real *dh = p->dh_BH + b0 * H, *dc = p->dc_BH + b0 * H;
    if (K) copy(f.content, p->content_BKC + b0 * K * C, M * K * C);
    if (addressed) renew_all(p, w, &f.cells, f.content, M, f.rows);

    for (int64_t t = p->T - 1; t >= 0; t--) {
        int64_t at = t * B + b0;
        real *gates = p->gates_TBG + at * G;
        for (int64_t b = 0; b < M && p->mask_TB; b++) { /* a masked step changes no state */
            real *held = f.held + 2 * b * H;
            int masked = !p->mask_TB[at + b];
            move_if(masked, held, dh + b * H, H);
            move_if(masked, held + H, dc + b * H, H);
        }
        if (K) {
            unwrite_memory(p, w, &f, t, b0, M, addressed, sums.address);
            product(M, p->dmicro_TBC + at * C, C, &w->micro_back, dh, H, 1);
        }
        for (int64_t b = 0; b < M; b++) {
            const real *dropout = p->dropout_TBH ? p->dropout_TBH + (at + b) * H : NULL;
            const real *norm_scale = p->norm ? p->norm_scale_TB4 + (at + b) * 4 : NULL;
            if (p->dh_out_TBH) add_scaled(dh + b * H, p->dh_out_TBH + (at + b) * H, 1, H);
            cell_backward(p, gates + b * G, dropout, p->c_TBH + (at + b) * H, dh + b * H,
                          dc + b * H, norm_scale, sums.gain, sums.bias, f.normal);
        }
        product(M, gates + 3 * H, G, &w->candidate_back, f.back, S, 0);
        if (p->reset)
            for (int64_t b = 0; b < M; b++) reset_backward(p, f.back + b * S, at + b);
        product(M, gates, G, &w->gates_back, f.back, S, 1);
        for (int64_t b = 0; b < M; b++) {
            real *back = f.back + b * S;
            if (K) unread_memory(p, &f, at + b, b0, b, back + H, addressed, &sums);
            copy(dh + b * H, back, H);
            if (p->soft) add_scaled(dh + b * H, p->w_tau_H, p->dtau_TB[at + b], H);
        }
        if (addressed && p->attached)
            product(M, p->common_TBP + at * P, P, &w->attention_back, dh, H, 1);
        for (int64_t b = 0; b < M && p->mask_TB; b++) {
            add_scaled(dh + b * H, f.held + 2 * b * H, 1, H);
            add_scaled(dc + b * H, f.held + (2 * b + 1) * H, 1, H);
        }
    }

    for (int64_t b = 0; b < M && addressed; b++) /* the memory at the start */
        begin_backward(p, w, &f, b0, b, &sums);
}

/* Add the parts of all shares up; W_u was centred, so its gradient is. */
static void add_up(const Problem *p, char *arena, int64_t arena_bytes) {
    int64_t K = p->K, P = p->P, addressed = K && (p->soft || p->dpi_TBK);
    for (int64_t share = 0; share < p->shares; share++) {
        Arena here = {arena + share * arena_bytes, 0};
        Sums sums = take_sums(&here, p);
        if (p->norm) {
            add_scaled(p->dgain_4H, sums.gain, 1, 4 * p->H);
            add_scaled(p->dbias_4H, sums.bias, 1, 4 * p->H);
        }
        if (!addressed) continue;
        add_scaled(p->da_P, sums.a, 1, P);
        add_scaled(p->daddress_KP, sums.address, 1, K * P);
        for (int64_t i = 0; i < P; i++) {
            real mean = 0;
            for (int64_t k = 0; k < K; k++) mean += sums.W_u[k * P + i] / (real)K;
            for (int64_t k = 0; k < K; k++) p->dW_u_PK[i * K + k] += sums.W_u[k * P + i] - mean;
        }
    }
}

/* ---------------------------------------------------------------- one call */

typedef struct {
    Packed *packed;
    int64_t depth, width;
    Matrix first, second; /* side by side, or one below the other */
    int64_t seam;
    int deep;
} Job;

typedef struct {
    const Problem *p;
    int backward;
    Weights weights;
    Job jobs[6];
    int count;
    char *arena;
    int64_t arena_bytes; /* a share */
} Call;

/* The matrices that the call multiplies by: W^T on the way forward, W on the way back. */
static void list_jobs(Call *call) {
    const Problem *p = call->p;
    Weights *w = &call->weights;
    int64_t H = p->H, C = p->C, P = p->P, Q = p->A + C, S = H + Q;
    const real *h = p->W_h_GH, *r = p->W_r_GQ, *h_g = h + 3 * H * H, *r_g = r ? r + 3 * H * Q : NULL;
    Matrix none = {NULL, 0, 0};
    Job forward[] = {
        {&w->gates, S, 3 * H, {h, 1, H}, {r, 1, Q}, H, 1},
        {&w->candidate, S, H, {h_g, 1, H}, {r_g, 1, Q}, H, 1},
        {&w->attention, H, P, {p->read_W_h_PH, 1, H}, none, H, 1},
        {&w->micro, H, C, {p->W_m_CH, 1, H}, none, H, 1},
        {&w->row, C, P, {p->read_W_c_PC, 1, C}, none, C, 1},
    };
    Job backward[] = {
        {&w->gates_back, 3 * H, S, {h, H, 1}, {r, Q, 1}, H, 0},
        {&w->candidate_back, H, S, {h_g, H, 1}, {r_g, Q, 1}, H, 0},
        {&w->attention_back, P, H, {p->read_W_h_PH, H, 1}, none, H, 0},
        {&w->micro_back, C, H, {p->W_m_CH, H, 1}, none, H, 0},
        {&w->row_back, P, C, {p->read_W_c_PC, C, 1}, none, C, 0},
        {&w->row, C, P, {p->read_W_c_PC, 1, C}, none, C, 1},
    };
    if (call->backward) memcpy(call->jobs, backward, sizeof backward);
    else memcpy(call->jobs, forward, sizeof forward);
    call->count = p->K ? (call->backward ? 6 : 5) : 2;
}

static void pack_share(void *data, int64_t share) {
    Call *call = data;
    for (int i = 0; i < call->count; i++) {
        Job *job = &call->jobs[i];
        int64_t n = panels(job->packed), shares = call->p->shares;
        (job->deep ? pack_deep : pack_wide)(job->packed, job->first, job->second, job->seam,
                                            share * n / shares, (share + 1) * n / shares);
    }
}

static void run_share(void *data, int64_t share) {
    Call *call = data;
    const Problem *p = call->p;
    int64_t b0 = share * p->B / p->shares, b1 = (share + 1) * p->B / p->shares;
    Arena arena = {call->arena + share * call->arena_bytes, 0};
    if (b1 == b0) return;
    if (call->backward) backward_share(p, &call->weights, &arena, b0, b1 - b0);
    else forward_share(p, &call->weights, &arena, b0, b1 - b0);
}

/* Run forward or backward; returns 0, or 1 if there is not enough memory. */
int VARIANT(const void *problem, int backward) {
    const Problem *p = problem;
    Call call = {.p = p, .backward = backward};
    list_jobs(&call);
    int64_t numbers = 0, most = (p->B + p->shares - 1) / p->shares;
    for (int i = 0; i < call.count; i++)
        numbers += packed_size(call.jobs[i].depth, call.jobs[i].width);
    Arena measure = {NULL, 0};
    if (backward) {
        take_sums(&measure, p);
        take_backward(&measure, p, most);
    } else {
        take_forward(&measure, p, most);
    }
    call.arena_bytes = measure.used;

    char *packed = malloc(sizeof(real) * (size_t)numbers + 64);
    char *arena = calloc((size_t)(call.arena_bytes * p->shares) + 64, 1);
    if (packed && arena) {
        real *next = (real *)align_64(packed);
        for (int i = 0; i < call.count; i++) {
            Job *job = &call.jobs[i];
            *job->packed = (Packed){job->depth, job->width, next};
            next += packed_size(job->depth, job->width);
        }
        call.arena = align_64(arena);
        in_parallel(p->parallel, pack_share, &call, p->shares);
        in_parallel(p->parallel, run_share, &call, p->shares);
        if (backward) add_up(p, call.arena, call.arena_bytes);
    }
    free(packed);
    free(arena);
    return packed && arena ? 0 : 1;
}
