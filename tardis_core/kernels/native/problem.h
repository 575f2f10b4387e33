/* What one call works on. Included once for float and once for double.
 *
 * Letters: T time, B batch, D input, H hidden, G = 4H (+ 2 with RESET gates), K cells, A address,
 * C content, Q = A + C, P attention. All arrays are dense, the last axis named varies fastest. The
 * order of the fields is that of `_FIELDS` in tardis_core/kernels/library.py. */

typedef struct {
    /* Sizes; K = A = C = P = 0 is the LSTM baseline. */
    int64_t T, B, D, H, K, A, C, P;
    /* Switches: RESET gates; layer normalisation; gradients through the choice of the cell, by a
     * softmax with a learned temperature or, backward alone, by so many softmaxes; gradients from the
     * read logits to h, x and the contents; a tape for backward. */
    int64_t reset, norm, soft, softmaxes, attached, keep;
    int64_t threads;
    parallel_fn parallel; /* the pool of threads to use, or NULL to start threads */

    /* Inputs and weights, as the model has them. */
    const real *x_TBD, *W_x_GD, *b_G, *W_h_GH, *W_r_GQ, *gain_4H, *W_m_CH;
    const real *read_W_x_PD, *read_b_P, *read_W_h_PH, *read_W_c_PC, *read_W_u_PK;
    const real *address_KP, *a_P, *w_tau_1H, *b_tau_1, *address_KA;

    /* Noise and mask; NULL where there is none. */
    const real *read_noise_TBK, *reset_noise_TB2, *dropout_TBH;
    const uint8_t *mask_TB;

    /* The softmaxes and their factors: dpi = sum over s of scale[s] (diag(p) - p p^T) dw. */
    const real *p_STBK, *scale_S;

    /* The state at the start; that of the memory is NULL if it is empty. */
    const real *h0_BH, *c0_BH, *content0_BKC, *reads0_BK, *last0_BK;
    const int64_t *steps0_B;

    /* Made by forward. h has the state before each step, and after the last; h_out is NULL without a
     * mask, where it is h from step 1 on. What backward needs beside goes to the tape. */
    real *h_TBH, *h_out_TBH, *r_TBQ, *pi_TBK, *reset_TB2;
    int64_t *read_TB, *written_TB;
    real *tape;

    /* The state at the end. */
    real *h_BH, *c_BH, *content_BKC, *reads_BK, *last_BK;
    int64_t *steps_B;

    /* Gradients of the outputs; NULL where there is none. */
    const real *dh_out_TBH, *dr_TBQ, *dpi_TBK, *dreset_TB2;

    /* Gradients made by backward. dh, dc and dcontent come in as those of the state at the end and
     * leave as those of the state at the start. NULL where it is not asked for: dx; dcontent, if there
     * is none to come in either; and the whole addressing, where neither the choice nor dpi_TBK
     * gives it any. */
    real *dh_BH, *dc_BH, *dcontent_BKC;
    real *dx_TBD, *dW_x_GD, *db_G, *dW_h_GH, *dW_r_GQ, *dgain_4H, *dW_m_CH;
    real *dread_W_x_PD, *dread_b_P, *dread_W_h_PH, *dread_W_c_PC, *dread_W_u_PK;
    real *daddress_KP, *da_P, *dw_tau_1H, *db_tau_1;
} Problem;
