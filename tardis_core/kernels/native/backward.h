/* A part of the batch back through all steps: the gradients of states and pre-activations.
 *
 * The memory is run backwards: before a write its cell held an earlier micro-state. Weights get
 * their gradients afterwards, from what is left on the tape (gradients.h). */

/* Whether the addressing gets a gradient: from the choice of the cell, or from the logits. */
static int choice_has_gradient(const Problem *p) { return p->soft || p->softmaxes; }
static int addressed(const Problem *p) { return p->K && (choice_has_gradient(p) || p->dpi_TBK); }

/* Gradients of pre-activations that have no place on the tape. */
typedef struct {
    real *micro; /* [T][B][C]: of W_m h */
    real *row;   /* [T][B][P]: of W_m M[written], gathered until it was overwritten */
    real *row0;  /* [B][K][P]: of W_m M at the start */
} Slopes;

static Slopes take_slopes(Arena *arena, const Problem *p) {
    int64_t N = p->T * p->B, P = addressed(p) ? p->P : 0;
    Slopes slopes;
    slopes.micro = TAKE(arena, real, N * p->C);
    slopes.row = TAKE(arena, real, N * P);
    slopes.row0 = TAKE(arena, real, p->content0_BKC ? p->B * p->K * P : 0);
    return slopes;
}

/* A share's part of the gradients that all samples add to. */
typedef struct {
    real *a, *address, *W_u, *gain, *bias, *w_tau, *b_tau;
} Sums;

static Sums take_sums(Arena *arena, const Problem *p) {
    int64_t KP = p->K * p->P, gates = p->norm ? 4 * p->H : 0;
    Sums sums;
    sums.a = TAKE(arena, real, p->P);
    sums.address = TAKE(arena, real, KP);
    sums.W_u = TAKE(arena, real, KP);
    sums.gain = TAKE(arena, real, gates);
    sums.bias = TAKE(arena, real, gates);
    sums.w_tau = TAKE(arena, real, p->soft ? p->H : 0);
    sums.b_tau = TAKE(arena, real, p->soft ? 1 : 0);
    return sums;
}

typedef struct {
    int64_t S;     /* the length of a row [dr | dh | dx], dx only where it is asked for */
    real *back;    /* the rows */
    real *held;    /* [sample][2][H]: of the h and c that pass a masked step by */
    real *content; /* the memory as it was before the step */
    real *dcontent; /* [sample][cell][C]: that of the caller, or our own */
    real *D;       /* [sample][cell][width]: of W_m M since it was written, divided by 4 a */
    real *empty_D; /* [cell][width]: of the empty cells of all samples, likewise */
    real *later;   /* [sample][P]: of the running sum of W_u's columns, from the later steps */
    real *gathered, *row, *cell_rows, *normal;
    int64_t padded; /* K, to whole vectors */
    real *dpi, *score, *weight, *dweight; /* [padded] */
    real *address; /* [A][padded]: address_KA the other way, so that a vector has one number a cell */
    Sums sums;
    Cells cells;
} Backward;

static Backward take_backward(Arena *arena, const Problem *p, int64_t b0, int64_t M) {
    int64_t K = p->K, P = p->P, padded = (K + VL - 1) / VL * VL;
    Backward f = {.S = p->A + p->C + p->H + (p->dx_TBD ? p->D : 0), .padded = padded};
    f.sums = take_sums(arena, p); /* first: there `add_up` finds it */
    f.back = TAKE(arena, real, M * f.S);
    f.held = TAKE(arena, real, p->mask_TB ? 2 * M * p->H : 0);
    f.content = TAKE(arena, real, M * K * p->C);
    f.dcontent = p->dcontent_BKC ? p->dcontent_BKC + b0 * K * p->C : TAKE(arena, real, M * K * p->C);
    f.D = TAKE(arena, real, M * K * ((P + VL - 1) / VL * VL));
    f.empty_D = TAKE_ZEROS(arena, real, K * ((P + VL - 1) / VL * VL));
    f.later = TAKE_ZEROS(arena, real, M * P);
    f.gathered = TAKE_ZEROS(arena, real, M * p->C);
    f.row = TAKE(arena, real, M * P);
    f.cell_rows = TAKE(arena, real, K * P);
    f.normal = TAKE(arena, real, p->norm ? 4 * p->H : 0);
    f.dpi = TAKE_ZEROS(arena, real, padded);
    f.score = TAKE_ZEROS(arena, real, padded);
    f.weight = TAKE_ZEROS(arena, real, padded);
    f.dweight = TAKE_ZEROS(arena, real, padded);
    f.address = TAKE_ZEROS(arena, real, choice_has_gradient(p) ? p->A * padded : 0);
    for (int64_t i = 0; i < K * p->A && choice_has_gradient(p) && arena->start; i++)
        f.address[i % p->A * padded + i / p->A] = p->address_KA[i];
    f.cells = take_cells(arena, p, M);
    return f;
}

/* The gradient of one row W_m M[k] from `D`, all that was gathered since it was written. */
static void flush_row(const Problem *p, Backward *f, real *D, int64_t k, real *row) {
    real *daddress = f->sums.address + k * p->P;
    for (int64_t i = 0; i < p->P; i += VL) {
        int64_t n = p->P - i;
        vec d = 4 * load(f->cells.a + i) * load(D + i);
        if (row) store_n(row + i, d, n);
        store_n(daddress + i, load_n(daddress + i, n) + d, n);
        store(D + i, (vec){0});
    }
}

/* The row of D of a sample's cell. */
static real *row_of(const Problem *p, const Backward *f, int64_t b, int64_t k) {
    return f->D + (b * p->K + k) * f->cells.width;
}

/* The memory at the end of the sequence. */
static void end_memory(const Problem *p, const Weights *w, Backward *f, int64_t b0, int64_t b) {
    int64_t K = p->K, C = p->C, steps = p->steps_B[b0 + b];
    int64_t filled = p->content0_BKC || steps > K ? K : steps;
    real *content = f->content + b * K * C;
    copy(content, p->content_BKC + (b0 + b) * K * C, filled * C);
    f->cells.filled[b] = filled;
    if (!p->dcontent_BKC) zero(f->dcontent + b * K * C, filled * C);
    if (!addressed(p)) return;
    renew_all(p, &w->row, &f->cells, content, b, f->cell_rows);
    zero(row_of(p, f, b, 0), filled * f->cells.width);
}

/* What a cell held before it was written at `at`: an earlier micro-state, or what there was at the
   start; NULL: it was empty. */
static const real *content_before(const Problem *p, const Tape *tape, int64_t at, int64_t sample,
                                  int64_t k) {
    int64_t before = tape->before[at];
    if (before >= 0) return tape->micro + (before * p->B + sample) * p->C;
    return p->content0_BKC ? p->content0_BKC + (sample * p->K + k) * p->C : NULL;
}

/* Back through the writes of step t: the gradient of the micro-states, and the memory before. */
static void unwrite_memory(const Problem *p, const Weights *w, const Tape *tape, Slopes *slopes,
                           Backward *f, int64_t t, int64_t b0, int64_t M) {
    int64_t K = p->K, C = p->C, P = p->P, at0 = t * p->B + b0;
    real *dmicro = slopes->micro + at0 * C, *drow = slopes->row + at0 * P;
    for (int64_t b = 0; b < M; b++) {
        int64_t at = at0 + b, k = p->written_TB[at];
        if (p->mask_TB && !p->mask_TB[at]) { /* nothing was written */
            zero(dmicro + b * C, C);
            if (addressed(p)) zero(drow + b * P, P);
            continue;
        }
        real *dcontent = f->dcontent + (b * K + k) * C;
        copy(dmicro + b * C, dcontent, C);
        zero(dcontent, C);
        real *content = f->content + (b * K + k) * C;
        const real *before = content_before(p, tape, at, b0 + b, k);
        if (addressed(p)) flush_row(p, f, row_of(p, f, b, k), k, drow + b * P);
        if (!before) {
            empty_last_cell(p, &f->cells, b);
            continue;
        }
        copy(content, before, C);
        copy(f->gathered + b * C, content, C);
    }
    if (!addressed(p)) return;
    product(M, f->gathered, C, &w->row, f->row, P, 0);
    for (int64_t b = 0; b < M; b++)
        if ((!p->mask_TB || p->mask_TB[at0 + b]) && p->written_TB[at0 + b] < f->cells.filled[b])
            renew_cell(p, &f->cells, b, p->written_TB[at0 + b], f->row + b * P);
    if (p->attached) product(M, drow, P, &w->row_back, dmicro, C, 1);
}

/* The gradient of the read weights, M dr. */
static void weights_backward(const Problem *p, Backward *f, int64_t b, const real *dr) {
    int64_t K = p->K, A = p->A;
    for (int64_t k = 0; k < K; k += VL) {
        vec s = {0};
        for (int64_t i = 0; i < A; i++) s += dr[i] * load(f->address + i * f->padded + k);
        store(f->dweight + k, s);
    }
    add_rows_times(f->dweight, f->content + b * K * p->C, dr + A, f->cells.filled[b], p->C);
}

/* Straight through softmaxes: their gradients, each with its factor, are added to dpi. */
static void softmaxes_backward(const Problem *p, Backward *f, int64_t at) {
    int64_t K = p->K, N = p->T * p->B;
    for (int64_t s = 0; s < p->softmaxes; s++) {
        const real *weight = p->p_STBK + (s * N + at) * K;
        vec sum_dweight = {0};
        for (int64_t k = 0; k < K; k += VL)
            sum_dweight += load_n(weight + k, K - k) * load(f->dweight + k);
        real mean = sum(sum_dweight), scale = p->scale_S[s];
        for (int64_t k = 0; k < K; k += VL) {
            vec dpi = scale * load_n(weight + k, K - k) * (load(f->dweight + k) - mean);
            store(f->dpi + k, load(f->dpi + k) + dpi);
        }
    }
}

/* Straight through softmax((pi + noise) tau), or without the noise: its gradient is added to dpi; that
   of the logit of tau is returned. */
static real temperature_backward(const Problem *p, Backward *f, int64_t at, real tau_logit) {
    int64_t K = p->K;
    const real *pi = p->pi_TBK + at * K, *noise = p->read_noise_TBK ? p->read_noise_TBK + at * K : NULL;
    real tau = softplus_1(tau_logit) + 1, slope = sigmoid_1(tau_logit);
    real most = -INFINITY;
    for (int64_t k = 0; k < K; k++) {
        f->score[k] = noise ? pi[k] + noise[k] : pi[k];
        if (f->score[k] > most) most = f->score[k];
    }
    vec sum_weight = {0}, sum_dweight = {0}, dtau = {0};
    for (int64_t k = 0; k < K; k += VL) {
        store_n(f->weight + k, vexp((load(f->score + k) - most) * tau), K - k);
        vec weight = load(f->weight + k); /* zero beyond K */
        sum_weight += weight;
        sum_dweight += weight * load(f->dweight + k);
    }
    real scale = 1 / sum(sum_weight), mean = sum(sum_dweight) * scale;
    for (int64_t k = 0; k < K; k += VL) {
        vec dscore = scale * load(f->weight + k) * (load(f->dweight + k) - mean);
        store(f->dpi + k, load(f->dpi + k) + tau * dscore);
        dtau += dscore * load(f->score + k);
    }
    return sum(dtau) * slope;
}

/* Back through the read of one sample; `dr` is the gradient of what was read. */
static void unread_memory(const Problem *p, const Tape *tape, Backward *f, int64_t at, int64_t b,
                          real *dr) {
    int64_t K = p->K, A = p->A, C = p->C, P = p->P, chosen = p->read_TB[at];
    if (p->dr_TBQ) add_scaled(dr, p->dr_TBQ + at * (A + C), 1, A + C);
    if (chosen < f->cells.filled[b]) add_scaled(f->dcontent + (b * K + chosen) * C, dr + A, 1, C);
    if (!addressed(p)) return;

    if (p->dpi_TBK) copy(f->dpi, p->dpi_TBK + at * K, K);
    else zero(f->dpi, K);
    if (choice_has_gradient(p)) weights_backward(p, f, b, dr);
    if (p->softmaxes) softmaxes_backward(p, f, at);
    if (p->soft) {
        real dtau = temperature_backward(p, f, at, tape->tau[at]);
        tape->tau[at] = dtau;
        add_scaled(f->sums.w_tau, p->h_TBH + at * p->H, dtau, p->H);
        *f->sums.b_tau += dtau;
    }
    real *common = tape->common + at * P;
    logits_backward(p, &f->cells, b, f->dpi, common, row_of(p, f, b, 0), f->empty_D, f->sums.a);

    /* W_u u is usage_scale times the sum of the columns of the reads before: a read takes part in
       all later steps, whose gradients `later` has gathered. */
    real *later = f->later + b * P;
    if (!p->mask_TB || p->mask_TB[at]) add_scaled(f->sums.W_u + chosen * P, later, 1, P);
    add_scaled(later, common, tape->usage_scale[at], P);
}

/* The gradients of alpha and beta come from the way back of the candidate, as
   (W_r^T dz) . r = dz . (W_r r). `back` enters as the candidate's gradient of [alpha r | beta h | x]
   and leaves as that of [r | h | x]; those of the logits go to dlogit. */
static void reset_backward(const Problem *p, real *dlogit, real *back, int64_t at) {
    int64_t H = p->H, Q = p->A + p->C;
    const real *reset = p->reset_TB2 + at * 2;
    real d[2] = {dot(back, p->r_TBQ + at * Q, Q), dot(back + Q, p->h_TBH + at * H, H)};
    scale_into(back, back, reset[0], Q);
    scale_into(back + Q, back + Q, reset[1], H);
    for (int64_t i = 0; i < 2; i++) {
        if (p->dreset_TB2) d[i] += p->dreset_TB2[at * 2 + i];
        dlogit[i] = d[i] * reset[i] * (1 - reset[i]) / RESET_TEMPERATURE;
    }
}

/* At the first step: what the rows and the reads that were there at the start have gathered. */
static void finish_memory(const Problem *p, const Weights *w, Slopes *slopes, Backward *f,
                          int64_t b0, int64_t b) {
    int64_t K = p->K, P = p->P, C = p->C, sample = b0 + b;
    real *rows = p->content0_BKC ? slopes->row0 + sample * K * P : NULL;
    for (int64_t k = 0; k < K; k++) {
        if (rows) flush_row(p, f, row_of(p, f, b, k), k, rows + k * P);
        if (p->reads0_BK)
            add_scaled(f->sums.W_u + k * P, f->later + b * P, p->reads0_BK[sample * K + k], P);
    }
    if (rows && p->attached)
        product(K, rows, P, &w->row_back, f->dcontent + b * K * C, C, 1);
}

static void backward_part(const Problem *p, const Weights *w, const Tape *tape, Slopes *slopes,
                          Arena *arena, int64_t b0, int64_t M) {
    int64_t B = p->B, D = p->D, H = p->H, K = p->K, C = p->C, P = p->P, Q = p->A + C;
    int64_t G = gate_stride(p);
    Backward f = take_backward(arena, p, b0, M);
    real *dh = p->dh_BH + b0 * H, *dc = p->dc_BH + b0 * H;
    for (int64_t b = 0; b < M && K; b++) end_memory(p, w, &f, b0, b);

    for (int64_t t = p->T - 1; t >= 0; t--) {
        int64_t at = t * B + b0;
        real *gates = tape->gates + at * G;
        for (int64_t b = 0; b < M && p->mask_TB; b++) { /* a masked step changes no state */
            real *held = f.held + 2 * b * H;
            int masked = !p->mask_TB[at + b];
            move_if(masked, held, dh + b * H, H);
            move_if(masked, held + H, dc + b * H, H);
        }
        if (K) {
            unwrite_memory(p, w, tape, slopes, &f, t, b0, M);
            product(M, slopes->micro + at * C, C, &w->micro_back, dh, H, 1);
        }
        for (int64_t b = 0; b < M; b++) {
            const real *dropout = p->dropout_TBH ? p->dropout_TBH + (at + b) * H : NULL;
            const real *norm_scale = p->norm ? tape->norm_scale + (at + b) * 4 : NULL;
            if (p->dh_out_TBH) add_scaled(dh + b * H, p->dh_out_TBH + (at + b) * H, 1, H);
            cell_backward(p, gates + b * G, dropout, tape->c + (at + b) * H, dh + b * H, dc + b * H,
                          norm_scale, f.sums.gain, f.sums.bias, f.normal);
        }
        product(M, gates, G, &w->candidate_back, f.back, f.S, 0);
        for (int64_t b = 0; b < M && p->reset; b++)
            reset_backward(p, gates + b * G + 4 * H, f.back + b * f.S, at + b);
        product(M, gates + H, G, &w->gates_back, f.back, f.S, 1);
        for (int64_t b = 0; b < M && K; b++)
            unread_memory(p, tape, &f, at + b, b, f.back + b * f.S);
        if (addressed(p) && p->attached)
            product(M, tape->common + at * P, P, &w->attention_back, f.back + Q, f.S, 1);
        for (int64_t b = 0; b < M; b++) {
            const real *back = f.back + b * f.S + Q;
            copy(dh + b * H, back, H);
            if (p->soft) add_scaled(dh + b * H, p->w_tau_1H, tape->tau[at + b], H);
            if (p->dx_TBD) copy(p->dx_TBD + (at + b) * D, back + H, D);
            if (!p->mask_TB) continue;
            add_scaled(dh + b * H, f.held + 2 * b * H, 1, H);
            add_scaled(dc + b * H, f.held + (2 * b + 1) * H, 1, H);
        }
    }
    for (int64_t b = 0; b < M && addressed(p); b++) finish_memory(p, w, slopes, &f, b0, b);
    for (int64_t k = 0; k < K && addressed(p); k++)
        flush_row(p, &f, f.empty_D + k * f.cells.width, k, NULL);
}

static void add_or_set(real *to, const real *part, int add, int64_t n) {
    if (add) add_scaled(to, part, 1, n);
    else copy(to, part, n);
}

/* Add the parts of all shares up; W_u was centred, so its gradient is. */
static void add_up(const Problem *p, char *arena, int64_t arena_bytes, int64_t shares) {
    int64_t K = p->K, P = p->P;
    for (int64_t share = 0; share < shares; share++) {
        Arena here = {arena + share * arena_bytes, 0};
        Sums sums = take_sums(&here, p);
        int add = share > 0;
        if (p->norm) {
            add_or_set(p->dgain_4H, sums.gain, add, 4 * p->H);
            add_or_set(p->db_G, sums.bias, add, 4 * p->H);
        }
        if (!addressed(p)) continue;
        if (p->soft) {
            add_or_set(p->dw_tau_1H, sums.w_tau, add, p->H);
            add_or_set(p->db_tau_1, sums.b_tau, add, 1);
        }
        add_or_set(p->da_P, sums.a, add, P);
        add_or_set(p->daddress_KP, sums.address, add, K * P);
        for (int64_t i = 0; i < P; i++) {
            real mean = 0;
            for (int64_t k = 0; k < K; k++) mean += sums.W_u[k * P + i] / (real)K;
            for (int64_t k = 0; k < K; k++) sums.W_u[k * P + i] -= mean;
            for (int64_t k = 0; k < K; k++) {
                real *to = p->dread_W_u_PK + i * K + k;
                *to = sums.W_u[k * P + i] + (add ? *to : 0);
            }
        }
    }
}
