/* A part of the batch through all steps of Algorithm 1.
 *
 * Each sample has a row [h | x | 1 | r]: f, i, o and the RESET gates' logits are one product with it,
 * and the candidate is one with [beta h | x | 1 | alpha r]. */

static const real RESET_TEMPERATURE = (real)0.3, PENALTY = 100;

typedef struct { /* the weights, packed: W^T on the way forward, W on the way back */
    Packed gates, candidate, attention, micro, row;
    Packed gates_back, candidate_back, attention_back, micro_back, row_back;
} Weights;

typedef struct {
    int64_t S;          /* the length of a row */
    real *rows, *scaled;
    real *gates, *common, *c; /* where there is no tape: of one step */
    real *usage;        /* [sample][P]: W_u times the reads; with the deviation of the reads, W_u u */
    real *W_u;          /* [cell][P]: the columns of W_u, less their mean: u is centred */
    real *micro, *row, *cell_rows;
    double *squares, *total; /* sums over the cells of reads^2, of reads */
    int64_t *last;      /* the cell read last, or -1 */
    int32_t *writer;    /* [sample][cell]: the step that wrote it */
    Cells cells;
} Forward;

static Forward take_forward(Arena *arena, const Problem *p, int64_t M) {
    int64_t one_step = p->keep ? 0 : M;
    Forward f = {.S = p->H + p->D + 1 + p->A + p->C};
    f.rows = TAKE(arena, real, M * f.S);
    f.scaled = TAKE(arena, real, p->reset ? M * f.S : 0);
    f.gates = TAKE(arena, real, one_step * gate_stride(p));
    f.common = TAKE(arena, real, one_step * p->P);
    f.c = TAKE(arena, real, one_step * p->H);
    f.usage = TAKE_ZEROS(arena, real, M * p->P);
    f.W_u = TAKE(arena, real, p->K * p->P);
    f.micro = TAKE(arena, real, M * p->C);
    f.row = TAKE(arena, real, M * p->P);
    f.cell_rows = TAKE(arena, real, p->K * p->P);
    f.squares = TAKE_ZEROS(arena, double, M);
    f.total = TAKE_ZEROS(arena, double, M);
    f.last = TAKE(arena, int64_t, M);
    f.writer = TAKE(arena, int32_t, M * p->K);
    f.cells = take_cells(arena, p, M);
    return f;
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
        f->cells.filled[b] = carried ? K : 0;
        for (int64_t k = 0; k < K; k++) {
            f->writer[b * K + k] = -1;
            if (!carried) continue;
            if (p->last0_BK[sample * K + k] > 0) f->last[b] = k;
            f->total[b] += (double)reads[k];
            f->squares[b] += (double)reads[k] * (double)reads[k];
            add_scaled(f->usage + b * P, f->W_u + k * P, reads[k], P);
        }
        renew_all(p, &w->row, &f->cells, content, b, f->cell_rows);
    }
}

/* Choose a cell and read it; `common` comes in as W_h h + W_x x + b. */
static void read_memory(const Problem *p, const Tape *tape, Forward *f, int64_t at, int64_t b0,
                        int64_t b, real *common) {
    int64_t K = p->K, P = p->P, A = p->A, C = p->C;
    real *row = f->rows + b * f->S;

    /* Eq. (6): u is the reads so far, centred and divided by their standard deviation. */
    double mean = f->total[b] / (double)K;
    double variance = f->squares[b] / (double)K - mean * mean;
    real scale = (real)(1 / sqrt((variance > 0 ? variance : 0) + 1e-5));
    add_scaled(common, f->usage + b * P, scale, P);

    real *pi = p->pi_TBK + at * K;
    logits(p, &f->cells, b, common, pi);
    if (f->last[b] >= 0) pi[f->last[b]] -= PENALTY;

    /* argmax(pi + noise), the first of equals. */
    int64_t chosen = 0;
    const real *noise = p->read_noise_TBK ? p->read_noise_TBK + at * K : NULL;
    real most = noise ? pi[0] + noise[0] : pi[0];
    for (int64_t k = 1; k < K; k++) {
        real score = noise ? pi[k] + noise[k] : pi[k];
        int more = score > most; /* no jump: nothing could foretell it */
        most = more ? score : most;
        chosen = more ? k : chosen;
    }
    p->read_TB[at] = chosen;

    /* Eq. (1): both parts of the cell. */
    real *r = p->r_TBQ + at * (A + C);
    copy(r, p->address_KA + chosen * A, A);
    copy(r + A, p->content_BKC + ((b0 + b) * K + chosen) * C, C);
    copy(row + p->H + p->D + 1, r, A + C);

    if (!p->keep) return;
    tape->usage_scale[at] = scale;
    if (p->soft) tape->tau[at] = dot(p->w_tau_1H, row, p->H) + *p->b_tau_1;
}

/* Eq. (8), and the row that the candidate sees. */
static void reset_gates(const Problem *p, Forward *f, const real *logit, int64_t at, int64_t b) {
    int64_t H = p->H, D = p->D, Q = p->A + p->C, S = f->S;
    const real *row = f->rows + b * S, *r = row + H + D + 1;
    real gates[2];
    for (int64_t i = 0; i < 2; i++) {
        real x = logit[i] + (p->reset_noise_TB2 ? p->reset_noise_TB2[at * 2 + i] : 0);
        p->reset_TB2[at * 2 + i] = gates[i] = sigmoid_1(x / RESET_TEMPERATURE);
    }
    real *scaled = f->scaled + b * S;
    scale_into(scaled, row, gates[1], H);
    copy(scaled + H, row + H, D + 1);
    scale_into(scaled + H + D + 1, r, gates[0], Q);
}

/* Write the micro-state: the first K writes fill the cells in order, later ones go to the cell just
   read. The cell of the read logits is renewed with it. */
static void write_memory(const Problem *p, const Weights *w, const Tape *tape, Forward *f,
                         const real *h, int64_t t, int64_t b0, int64_t M) {
    int64_t K = p->K, C = p->C, P = p->P, at0 = t * p->B + b0;
    real *micro = p->keep ? tape->micro + at0 * C : f->micro;
    product(M, h, p->H, &w->micro, micro, C, 0);
    product(M, micro, C, &w->row, f->row, P, 0);
    for (int64_t b = 0; b < M; b++) {
        int64_t at = at0 + b, sample = b0 + b;
        int64_t chosen = p->read_TB[at], steps = p->steps_B[sample];
        int64_t place = steps < K ? steps : chosen;
        p->written_TB[at] = place;
        if (p->mask_TB && !p->mask_TB[at]) continue;
        if (p->keep) {
            tape->before[at] = f->writer[b * K + place];
            f->writer[b * K + place] = (int32_t)t;
        }
        copy(p->content_BKC + (sample * K + place) * C, micro + b * C, C);
        if (place == f->cells.filled[b]) f->cells.filled[b]++;
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

static void forward_part(const Problem *p, const Weights *w, const Tape *tape, Arena *arena,
                         int64_t b0, int64_t M) {
    int64_t B = p->B, D = p->D, H = p->H, K = p->K, P = p->P, G = gate_stride(p);
    Forward f = take_forward(arena, p, M);
    real *first_c = p->keep ? tape->c + b0 * H : f.c;
    copy(p->h_TBH + b0 * H, p->h0_BH + b0 * H, M * H);
    copy(first_c, p->c0_BH + b0 * H, M * H);
    if (K) begin_memory(p, w, &f, b0, M);

    for (int64_t t = 0; t < p->T; t++) {
        int64_t at = t * B + b0;
        const real *h = p->h_TBH + at * H;
        real *gates = p->keep ? tape->gates + at * G : f.gates;
        for (int64_t b = 0; b < M; b++) {
            real *row = f.rows + b * f.S;
            copy(row, h + b * H, H);
            copy(row + H, p->x_TBD + (at + b) * D, D);
            row[H + D] = 1;
        }
        if (K) {
            real *common = p->keep ? tape->common + at * P : f.common;
            product(M, f.rows, f.S, &w->attention, common, P, 0);
            for (int64_t b = 0; b < M; b++)
                read_memory(p, tape, &f, at + b, b0, b, common + b * P);
        }
        product(M, f.rows, f.S, &w->gates, gates + H, G, 0);
        for (int64_t b = 0; b < M && p->reset; b++)
            reset_gates(p, &f, gates + b * G + 4 * H, at + b, b);
        product(M, p->reset ? f.scaled : f.rows, f.S, &w->candidate, gates, G, 0);

        const real *c = first_c + (p->keep ? t * B * H : 0);
        real *new_c = first_c + (p->keep ? (t + 1) * B * H : 0), *state_h = p->h_TBH + (at + B) * H;
        real *new_h = p->h_out_TBH ? p->h_out_TBH + at * H : state_h;
        for (int64_t b = 0; b < M; b++) {
            const real *dropout = p->dropout_TBH ? p->dropout_TBH + (at + b) * H : NULL;
            real *norm_scale = p->norm && p->keep ? tape->norm_scale + (at + b) * 4 : NULL;
            int masked = p->mask_TB && !p->mask_TB[at + b];
            /* A masked step is seen in the output alone: its c goes where h of the state will. */
            cell_forward(p, gates + b * G, dropout, c + b * H,
                         masked ? state_h + b * H : new_c + b * H, new_h + b * H, norm_scale);
            if (!p->mask_TB) continue;
            copy(state_h + b * H, masked ? h + b * H : new_h + b * H, H);
            if (masked && p->keep) copy(new_c + b * H, c + b * H, H);
        }
        if (K) write_memory(p, w, tape, &f, new_h, t, b0, M);
    }

    copy(p->h_BH + b0 * H, p->h_TBH + (p->T * B + b0) * H, M * H);
    copy(p->c_BH + b0 * H, first_c + (p->keep ? p->T * B * H : 0), M * H);
    for (int64_t b = 0; b < M && K; b++) {
        zero(p->last_BK + (b0 + b) * K, K);
        if (f.last[b] >= 0) p->last_BK[(b0 + b) * K + f.last[b]] = 1;
    }
}
