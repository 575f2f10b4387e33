/* What one call works on. Included once for float and once for double.
 *
 * Letters: T time, B batch, H hidden, G = 4H (+ 2 with RESET gates), K cells, A address, C content,
 * Q = A + C, P attention. All arrays are dense, the last axis named varies fastest. The order of the
 * fields is that of `Problem` in tardis_core/kernels/native.py. */

typedef struct {
    /* Sizes; K = A = C = P = 0 is the LSTM baseline. */
    int64_t T, B, H, K, A, C, P;
    /* Switches: RESET gates; layer normalisation; gradients through the choice of the cell (straight
     * through); gradients from the read logits to h and the contents; keep what backward needs. */
    int64_t reset, norm, soft, attached, keep;
    int64_t shares;   /* into how many parts the batch is split, one a thread */
    parallel_fn parallel; /* the pool of threads to use, or NULL to start threads */

    /* Weights, as the model has them. */
    const real *W_h_GH, *W_r_GQ, *b_G, *gain_4H, *W_m_CH;
    const real *read_W_h_PH, *read_W_c_PC, *read_W_u_PK, *address_KP, *a_P, *w_tau_H, *b_tau;
    const real *address_KA;

    /* Noise and mask; NULL where there is none. */
    const real *read_noise_TBK, *reset_noise_TB2, *dropout_TBH;
    const uint8_t *mask_TB;

    /* The state at the start; that of the memory is NULL if it is empty. */
    const real *h0_BH, *c0_BH, *content0_BKC, *reads0_BK, *last0_BK;
    const int64_t *steps0_B;

    /* Made by forward. gates comes in as W_x x + b (without b if they are normalised) and common as
     * the W_x x + b of the read logits; both are overwritten. h and c hold the state before each step
     * (and after the last); without `keep` c has one step only. h_out is NULL without a mask: then it
     * is h from step 1 on. */
    real *gates_TBG, *common_TBP, *h_TBH, *c_TBH, *h_out_TBH;
    real *r_TBQ, *pi_TBK, *reset_TB2;
    int64_t *read_TB, *written_TB;

    /* The state at the end. */
    real *h_BH, *c_BH, *content_BKC, *reads_BK, *last_BK;
    int64_t *steps_B;

    /* Kept for backward. */
    real *micro_TBC, *tau_TB, *usage_scale_TB, *norm_scale_TB4;
    int32_t *before_TB; /* the step that had written the cell before, -1: none of this call */

    /* Gradients of the outputs; NULL where there is none. */
    const real *dh_out_TBH, *dr_TBQ, *dpi_TBK, *dreset_TB2;

    /* Gradients made by backward, which also leaves those of the pre-activations in gates and
     * common. dh, dc and dcontent come in as those of the state at the end and leave as those of the
     * state at the start. */
    real *dh_BH, *dc_BH, *dcontent_BKC;
    real *dmicro_TBC, *drow_TBP, *dtau_TB; /* of W_m h, of W_m M[written], of the logit of tau */
    real *drow0_BKP;                       /* of W_m M at the start; NULL if it was empty */
    real *da_P, *daddress_KP, *dW_u_PK, *dgain_4H, *dbias_4H;
} Problem;
