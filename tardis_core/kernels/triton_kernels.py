"""Everything of a step but its matrix products, in four Triton kernels.

    forward    write_and_read   store the last micro-state, then choose and read a cell
               gates            RESET gates, normalisation, dropout, new h and c
    backward   gates_backward
               unread_unwrite   back through a read, then through the write before it

A program works on one sequence of the batch (the gates: on one tile of it where no sum over H is
needed), so no two programs ever write to the same place: results do not depend on their order.
Tensors are contiguous; letters are those of `inputs`. A state h is multiplied once, for
W = C + P + G + P columns: the micro-state, its projection for the read logits, the gates (alpha,
beta, f, i, o, g) and the read logits. V = W + 1 slopes come back, the last one of the temperature.
Loads widen and stores round, so the products may be in lower precision than the state.
"""

# mypy: disable-error-code="no-untyped-def"
# The arguments of a kernel are pointers and numbers that only Triton's compiler knows.
import triton
import triton.language as tl

# The model's own constants, written out again: see `torch_forward`.
_PENALTY = tl.constexpr(100.0)  # of the cell read last
_EPSILON = tl.constexpr(1e-5)  # of layer normalisation, and of the usage of the cells
_TEMPERATURE = tl.constexpr(0.3)  # of the RESET gates


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tanh(x):
    # Of the absolute value, so that no exponential overflows.
    small = tl.exp(-2 * tl.abs(x))
    size = (1 - small) / (1 + small)
    return tl.where(x < 0, -size, size)


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0) + tl.log(1 + tl.exp(-tl.abs(x)))


@triton.jit
def _active(mask_TB, place, MASKED: tl.constexpr):
    """Whether the step exists for this sequence."""
    active = place >= 0
    if MASKED:
        active = tl.load(mask_TB + place) != 0
    return active


@triton.jit(do_not_specialize=["t", "B"])
def write_and_read(
    products_BW,  # of the state before this step
    x_logits_TBP,
    content_BKC,
    cells_BKP,  # the memory's part of the read logits
    reads_BK,
    last_BK,
    steps_B,
    usage_logits_BP,  # W_u times the reads so far
    usage_sum_P,  # W_u times one read of every cell
    W_u_KP,
    address_KP,
    address_KA,
    a_P,
    noise_TBK,
    mask_TB,
    pi_TBK,
    common_TBP,
    usage_TBK,
    overwritten_TBC,
    overwritten_row_TBP,
    read_TB,
    written_TB,
    r_TBQ,
    r_BQ,  # r again, in the precision of the products
    t,
    B,
    K: tl.constexpr,
    P: tl.constexpr,
    A: tl.constexpr,
    C: tl.constexpr,
    W: tl.constexpr,
    BLOCK_K: tl.constexpr,  # at least K
    BLOCK_P: tl.constexpr,  # at least P
    BLOCK_Q: tl.constexpr,  # at least A and C
    TILE_K: tl.constexpr,  # cells at a time
    WRITE: tl.constexpr,
    READ: tl.constexpr,
    NOISE: tl.constexpr,
    MASKED: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    now = t.to(tl.int64) * B + b
    p, q, k = tl.arange(0, BLOCK_P), tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K)
    in_p, in_c, in_a, in_k = p < P, q < C, q < A, k < K
    kind = pi_TBK.dtype.element_ty
    products = products_BW + b * W
    if WRITE:  # Eq. (2), of the step before
        before = now - B
        place = tl.load(written_TB + before)
        active = _active(mask_TB, before, MASKED)
        cell = content_BKC + (b * K + place) * C + q
        row = cells_BKP + (b * K + place) * P + p
        tl.store(overwritten_TBC + before * C + q, tl.load(cell, in_c), in_c)
        tl.store(overwritten_row_TBP + before * P + p, tl.load(row, in_p), in_p)
        micro = tl.load(products + q, in_c).to(kind)
        projected = tl.load(products + C + p, in_p).to(kind)
        projected += tl.load(address_KP + place * P + p, in_p)
        tl.debug_barrier()  # what is overwritten has been read by all threads
        tl.store(cell, micro, in_c & active)
        tl.store(row, projected, in_p & active)
        tl.debug_barrier()
    if READ:
        # Eq. (6): the reads so far, centred and divided by their deviation.
        counts = tl.load(reads_BK + b * K + k, in_k, 0.0)
        mean = tl.sum(counts) / K
        centred = tl.where(in_k, counts - mean, 0.0)
        scale = 1 / tl.sqrt(tl.sum(centred * centred) / K + _EPSILON)
        tl.store(usage_TBK + now * K + k, centred * scale, in_k)
        used = tl.load(usage_logits_BP + b * P + p, in_p, 0.0)
        common = (used - mean * tl.load(usage_sum_P + p, in_p, 0.0)) * scale
        common += tl.load(x_logits_TBP + now * P + p, in_p, 0.0)
        common += tl.load(products + (W - P) + p, in_p, 0.0).to(kind)
        tl.store(common_TBP + now * P + p, common, in_p)
        # Eq. (4): the greatest logit, with noise; the first of equal ones.
        a = tl.load(a_P + p, in_p, 0.0)
        best = tl.full((), float("-inf"), kind)
        read = tl.full((), 0, tl.int64)
        for start in range(0, K, TILE_K):
            cells = start + tl.arange(0, TILE_K)
            in_tile = cells < K
            rows = cells_BKP + (b * K + cells[:, None]) * P + p[None, :]
            tile = tl.load(rows, in_tile[:, None] & in_p[None, :], 0.0) + common[None, :]
            pi = tl.sum(_tanh(tile) * a[None, :], 1)
            pi -= _PENALTY * tl.load(last_BK + b * K + cells, in_tile, 0.0)
            tl.store(pi_TBK + now * K + cells, pi, in_tile)
            score = pi
            if NOISE:
                score += tl.load(noise_TBK + now * K + cells, in_tile, 0.0)
            score = tl.where(in_tile, score, float("-inf"))
            top = tl.max(score)
            chosen = tl.min(tl.where(score == top, cells, K)).to(tl.int64)
            read = tl.where(top > best, chosen, read)
            best = tl.maximum(best, top)
        tl.store(read_TB + now, read)
        taken = tl.load(steps_B + b)
        tl.store(written_TB + now, tl.where(taken < K, taken, read))
        # Eq. (1): the address and the content of the cell.
        address = tl.load(address_KA + read * A + q, in_a, 0.0)
        content = tl.load(content_BKC + (b * K + read) * C + q, in_c, 0.0)
        for r in tl.static_range(2):
            target = r_TBQ + now * (A + C) if r == 0 else r_BQ + b * (A + C)
            tl.store(target + q, address, in_a)
            tl.store(target + A + q, content, in_c)
        active = _active(mask_TB, now, MASKED)
        hot = k == read
        tl.debug_barrier()  # the counts and the step have been read by all threads
        tl.store(reads_BK + b * K + k, counts + tl.where(hot, 1.0, 0.0), in_k & active)
        tl.store(last_BK + b * K + k, tl.where(hot, 1.0, 0.0), in_k & active)
        used += tl.load(W_u_KP + read * P + p, in_p, 0.0)
        tl.store(usage_logits_BP + b * P + p, used, in_p & active)
        tl.store(steps_B + b, taken + 1, active)


@triton.jit(do_not_specialize=["t", "B"])
def gates(
    products_BW,
    r_products_BG,
    z_TBG,  # begins as W_x x + b; becomes the gates, or what is normalised
    r_part_TBH,  # W_r r of the candidate, before alpha
    h_part_TBH,  # W_h h of the candidate, before beta
    deviation_TB4,
    gain_4H,
    bias_4H,
    reset_TB2,
    reset_noise_TB2,
    dropout_TBH,
    mask_TB,
    h_TBH,  # states: row t is the one before step t, row t + 1 the one after it
    c_TBH,
    h_out_TBH,
    h_BH,  # the state again, in the precision of the products
    t,
    B,
    H: tl.constexpr,
    G: tl.constexpr,
    W: tl.constexpr,
    FIRST: tl.constexpr,  # column of the products at which the gates begin
    TILE: tl.constexpr,
    MEMORY: tl.constexpr,
    RESET: tl.constexpr,
    RESET_NOISE: tl.constexpr,
    NORM: tl.constexpr,
    DROPOUT: tl.constexpr,
    MASKED: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    in_h = j < H
    now = t.to(tl.int64) * B + b
    kind = z_TBG.dtype.element_ty
    R: tl.constexpr = G - 4 * H
    z, h_products, r_products = z_TBG + now * G, products_BW + b * W + FIRST, r_products_BG + b * G
    f = tl.load(z + R + j, in_h, 0.0) + tl.load(h_products + R + j, in_h, 0.0).to(kind)
    i = tl.load(z + R + H + j, in_h, 0.0) + tl.load(h_products + R + H + j, in_h, 0.0).to(kind)
    o = tl.load(z + R + 2 * H + j, in_h, 0.0)
    o += tl.load(h_products + R + 2 * H + j, in_h, 0.0).to(kind)
    g = tl.load(z + R + 3 * H + j, in_h, 0.0)
    h_part = tl.load(h_products + R + 3 * H + j, in_h, 0.0).to(kind)
    if MEMORY:
        f += tl.load(r_products + R + j, in_h, 0.0).to(kind)
        i += tl.load(r_products + R + H + j, in_h, 0.0).to(kind)
        o += tl.load(r_products + R + 2 * H + j, in_h, 0.0).to(kind)
        r_part = tl.load(r_products + R + 3 * H + j, in_h, 0.0).to(kind)
        if RESET:  # Eq. (8); one number per sequence each
            alpha = tl.load(z) + tl.load(h_products).to(kind) + tl.load(r_products).to(kind)
            beta = tl.load(z + 1) + tl.load(h_products + 1).to(kind)
            beta += tl.load(r_products + 1).to(kind)
            if RESET_NOISE:
                alpha += tl.load(reset_noise_TB2 + now * 2)
                beta += tl.load(reset_noise_TB2 + now * 2 + 1)
            alpha, beta = _sigmoid(alpha / _TEMPERATURE), _sigmoid(beta / _TEMPERATURE)
            tl.store(reset_TB2 + now * 2, alpha)
            tl.store(reset_TB2 + now * 2 + 1, beta)
            tl.store(r_part_TBH + now * H + j, r_part, in_h)
            tl.store(h_part_TBH + now * H + j, h_part, in_h)
            g += beta * h_part + alpha * r_part
        else:
            g += h_part + r_part
    else:
        g += h_part
    tl.debug_barrier()  # z is overwritten only after all threads have read it
    if NORM:
        f, deviation_f = _normalised(f, in_h, H)
        i, deviation_i = _normalised(i, in_h, H)
        o, deviation_o = _normalised(o, in_h, H)
        g, deviation_g = _normalised(g, in_h, H)
        tl.store(deviation_TB4 + now * 4, deviation_f)
        tl.store(deviation_TB4 + now * 4 + 1, deviation_i)
        tl.store(deviation_TB4 + now * 4 + 2, deviation_o)
        tl.store(deviation_TB4 + now * 4 + 3, deviation_g)
        _store_gates(z + R, j, in_h, f, i, o, g, H)
        f = f * tl.load(gain_4H + j, in_h, 0.0) + tl.load(bias_4H + j, in_h, 0.0)
        i = i * tl.load(gain_4H + H + j, in_h, 0.0) + tl.load(bias_4H + H + j, in_h, 0.0)
        o = o * tl.load(gain_4H + 2 * H + j, in_h, 0.0) + tl.load(bias_4H + 2 * H + j, in_h, 0.0)
        g = g * tl.load(gain_4H + 3 * H + j, in_h, 0.0) + tl.load(bias_4H + 3 * H + j, in_h, 0.0)
    f, i, o, g = _sigmoid(f), _sigmoid(i), _sigmoid(o), _tanh(g)
    if not NORM:
        _store_gates(z + R, j, in_h, f, i, o, g, H)
    if DROPOUT:
        g *= tl.load(dropout_TBH + now * H + j, in_h, 0.0)
    old_c = tl.load(c_TBH + now * H + j, in_h, 0.0)
    old_h = tl.load(h_TBH + now * H + j, in_h, 0.0)
    new_c = f * old_c + i * g  # Eq. (9)
    new_h = o * _tanh(new_c)  # Eq. (10)
    tl.store(h_out_TBH + now * H + j, new_h, in_h)
    active = _active(mask_TB, now, MASKED)
    after = now + B
    tl.store(c_TBH + after * H + j, tl.where(active, new_c, old_c), in_h)
    tl.store(h_TBH + after * H + j, tl.where(active, new_h, old_h), in_h)
    tl.store(h_BH + b * H + j, tl.where(active, new_h, old_h), in_h)


@triton.jit
def _normalised(z, in_h, H: tl.constexpr):
    """Layer normalisation without gain and bias, and one over the deviation."""
    centred = tl.where(in_h, z - tl.sum(z) / H, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred) / H + _EPSILON)
    return centred * scale, scale


@triton.jit
def _store_gates(z, j, in_h, f, i, o, g, H: tl.constexpr):
    tl.store(z + j, f, in_h)
    tl.store(z + H + j, i, in_h)
    tl.store(z + 2 * H + j, o, in_h)
    tl.store(z + 3 * H + j, g, in_h)


@triton.jit(do_not_specialize=["t", "B"])
def gates_backward(
    dh_BH,  # of the state after this step, without what masked steps pass on
    held_BH,  # what masked steps pass on
    dc_BH,
    dh_out_TBH,
    dreset_TB2,
    z_TBG,
    r_part_TBH,
    h_part_TBH,
    deviation_TB4,
    gain_4H,
    bias_4H,
    reset_TB2,
    dropout_TBH,
    mask_TB,
    c_TBH,
    dz_TBG,
    slopes_TBV,  # row t: of all products with the state before step t
    r_slopes_BG,
    dgain_B4H,
    dbias_B4H,
    t,
    B,
    H: tl.constexpr,
    G: tl.constexpr,
    V: tl.constexpr,
    FIRST: tl.constexpr,
    TILE: tl.constexpr,
    MEMORY: tl.constexpr,
    RESET: tl.constexpr,
    NORM: tl.constexpr,
    DROPOUT: tl.constexpr,
    MASKED: tl.constexpr,
    FROM_H: tl.constexpr,
    FROM_RESET: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    in_h = j < H
    now = t.to(tl.int64) * B + b
    kind = z_TBG.dtype.element_ty
    R: tl.constexpr = G - 4 * H
    state_dh = tl.load(dh_BH + b * H + j, in_h, 0.0).to(kind)
    state_dh += tl.load(held_BH + b * H + j, in_h, 0.0)
    state_dc = tl.load(dc_BH + b * H + j, in_h, 0.0)
    active = _active(mask_TB, now, MASKED)
    dh = tl.where(active, state_dh, 0.0)
    dc = tl.where(active, state_dc, 0.0)
    if FROM_H:
        dh += tl.load(dh_out_TBH + now * H + j, in_h, 0.0)
    z = z_TBG + now * G + R
    zf, zi = tl.load(z + j, in_h, 0.0), tl.load(z + H + j, in_h, 0.0)
    zo, zg = tl.load(z + 2 * H + j, in_h, 0.0), tl.load(z + 3 * H + j, in_h, 0.0)
    f, i, o, g = zf, zi, zo, zg
    if NORM:
        gain_f, gain_i = tl.load(gain_4H + j, in_h, 0.0), tl.load(gain_4H + H + j, in_h, 0.0)
        gain_o = tl.load(gain_4H + 2 * H + j, in_h, 0.0)
        gain_g = tl.load(gain_4H + 3 * H + j, in_h, 0.0)
        f = _sigmoid(zf * gain_f + tl.load(bias_4H + j, in_h, 0.0))
        i = _sigmoid(zi * gain_i + tl.load(bias_4H + H + j, in_h, 0.0))
        o = _sigmoid(zo * gain_o + tl.load(bias_4H + 2 * H + j, in_h, 0.0))
        g = _tanh(zg * gain_g + tl.load(bias_4H + 3 * H + j, in_h, 0.0))
    old_c = tl.load(c_TBH + now * H + j, in_h, 0.0)
    kept = g
    if DROPOUT:
        dropout = tl.load(dropout_TBH + now * H + j, in_h, 0.0)
        kept = g * dropout
    squashed = _tanh(f * old_c + i * kept)
    dc += dh * o * (1 - squashed * squashed)
    df = dc * old_c * f * (1 - f)
    di = dc * kept * i * (1 - i)
    do = dh * squashed * o * (1 - o)
    dg = dc * i * (1 - g * g)
    if DROPOUT:
        dg *= dropout
    if NORM:
        _add_rows(dbias_B4H + b * 4 * H, j, in_h, df, di, do, dg, H)
        _add_rows(dgain_B4H + b * 4 * H, j, in_h, df * zf, di * zi, do * zo, dg * zg, H)
        df = _normalised_backward(df * gain_f, zf, tl.load(deviation_TB4 + now * 4), in_h, H)
        di = _normalised_backward(di * gain_i, zi, tl.load(deviation_TB4 + now * 4 + 1), in_h, H)
        do = _normalised_backward(do * gain_o, zo, tl.load(deviation_TB4 + now * 4 + 2), in_h, H)
        dg = _normalised_backward(dg * gain_g, zg, tl.load(deviation_TB4 + now * 4 + 3), in_h, H)
    dz = dz_TBG + now * G
    slopes = slopes_TBV + now * V + FIRST
    _store_gates(dz + R, j, in_h, df, di, do, dg, H)
    dg_h, dg_r = dg, dg
    if RESET:  # dz . W_r r = W_r^T dz . r
        alpha, beta = tl.load(reset_TB2 + now * 2), tl.load(reset_TB2 + now * 2 + 1)
        dalpha = tl.sum(dg * tl.load(r_part_TBH + now * H + j, in_h, 0.0))
        dbeta = tl.sum(dg * tl.load(h_part_TBH + now * H + j, in_h, 0.0))
        if FROM_RESET:
            dalpha += tl.load(dreset_TB2 + now * 2)
            dbeta += tl.load(dreset_TB2 + now * 2 + 1)
        dalpha *= alpha * (1 - alpha) / _TEMPERATURE
        dbeta *= beta * (1 - beta) / _TEMPERATURE
        for n in tl.static_range(3):
            target = dz if n == 0 else slopes if n == 1 else r_slopes_BG + b * G
            tl.store(target, dalpha)
            tl.store(target + 1, dbeta)
        dg_h, dg_r = beta * dg, alpha * dg
    _store_gates(slopes + R, j, in_h, df, di, do, dg_h, H)
    if MEMORY:
        _store_gates(r_slopes_BG + b * G + R, j, in_h, df, di, do, dg_r, H)
    tl.store(dc_BH + b * H + j, tl.where(active, dc * f, dc * f + state_dc), in_h)
    tl.store(held_BH + b * H + j, tl.where(active, 0.0, state_dh), in_h)


@triton.jit
def _normalised_backward(d, z, deviation, in_h, H: tl.constexpr):
    along = tl.sum(d * z) / H
    centred = d - tl.sum(d) / H
    return tl.where(in_h, (centred - z * along) * deviation, 0.0)


@triton.jit
def _add_rows(target, j, in_h, f, i, o, g, H: tl.constexpr):
    f += tl.load(target + j, in_h, 0.0)
    i += tl.load(target + H + j, in_h, 0.0)
    o += tl.load(target + 2 * H + j, in_h, 0.0)
    g += tl.load(target + 3 * H + j, in_h, 0.0)
    _store_gates(target, j, in_h, f, i, o, g, H)


@triton.jit(do_not_specialize=["t", "B", "T"])
def unread_unwrite(
    dr_BQ,  # by the gates
    dr_TBQ,
    dpi_TBK,
    tau_TB,  # logits of the temperature
    p_STBK,  # softmaxes and their factors, in place of one with a temperature
    scale_S,
    content_BKC,
    cells_BKP,
    dcontent_BKC,
    dcells_BKP,
    da_BP,
    address_KA,
    a_P,
    noise_TBK,
    mask_TB,
    pi_TBK,
    common_TBP,
    overwritten_TBC,
    overwritten_row_TBP,
    read_TB,
    written_TB,
    scratch_BK,
    slopes_TBV,
    dcommon_TBP,
    drow_TBP,
    t,
    B,
    T,
    K: tl.constexpr,
    P: tl.constexpr,
    A: tl.constexpr,
    C: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    TILE_K: tl.constexpr,
    UNREAD: tl.constexpr,
    UNWRITE: tl.constexpr,
    SOFT: tl.constexpr,
    SOFTMAXES: tl.constexpr,
    NOISE: tl.constexpr,
    ADDRESSED: tl.constexpr,
    MASKED: tl.constexpr,
    FROM_R: tl.constexpr,
    FROM_PI: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    now = t.to(tl.int64) * B + b
    p, q, k = tl.arange(0, BLOCK_P), tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K)
    in_p, in_c, in_a, in_k = p < P, q < C, q < A, k < K
    kind = content_BKC.dtype.element_ty
    # The state before step t was multiplied for this read and for the write of the step before.
    slopes = slopes_TBV + now * V
    if UNREAD:
        dr_a = tl.load(dr_BQ + b * (A + C) + q, in_a, 0.0).to(kind)
        dr_c = tl.load(dr_BQ + b * (A + C) + A + q, in_c, 0.0).to(kind)
        if FROM_R:
            dr_a += tl.load(dr_TBQ + now * (A + C) + q, in_a, 0.0)
            dr_c += tl.load(dr_TBQ + now * (A + C) + A + q, in_c, 0.0)
        target = dcontent_BKC + (b * K + tl.load(read_TB + now)) * C + q
        tl.store(target, tl.load(target, in_c, 0.0) + dr_c, in_c)
        if ADDRESSED:
            dpi = tl.zeros((BLOCK_K,), kind)
            if FROM_PI:
                dpi = tl.load(dpi_TBK + now * K + k, in_k, 0.0)
            if SOFT:  # straight through: the gradient of the read weights first
                for start in range(0, K, TILE_K):
                    cells = start + tl.arange(0, TILE_K)
                    in_tile = cells < K
                    where_c = in_tile[:, None] & in_c[None, :]
                    where_a = in_tile[:, None] & in_a[None, :]
                    at_c = content_BKC + (b * K + cells[:, None]) * C + q[None, :]
                    at_a = address_KA + cells[:, None] * A + q[None, :]
                    dweight = tl.sum(tl.load(at_c, where_c, 0.0) * dr_c[None, :], 1)
                    dweight += tl.sum(tl.load(at_a, where_a, 0.0) * dr_a[None, :], 1)
                    tl.store(scratch_BK + b * K + cells, dweight, in_tile)
                tl.debug_barrier()
                dweight = tl.load(scratch_BK + b * K + k, in_k, 0.0)
                if SOFTMAXES:
                    for s in range(SOFTMAXES):
                        at = (s * T.to(tl.int64) * B + now) * K + k
                        weight = tl.load(p_STBK + at, in_k, 0.0)
                        dscore = weight * (dweight - tl.sum(weight * dweight))
                        dpi += tl.load(scale_S + s) * dscore
                else:  # softmax((pi + noise) tau)
                    score = tl.load(pi_TBK + now * K + k, in_k, 0.0)
                    if NOISE:
                        score += tl.load(noise_TBK + now * K + k, in_k, 0.0)
                    logit = tl.load(tau_TB + now)
                    tau = _softplus(logit) + 1
                    scaled = tl.where(in_k, score * tau, float("-inf"))
                    weight = tl.exp(scaled - tl.max(scaled))
                    weight /= tl.sum(weight)
                    dscore = weight * (dweight - tl.sum(weight * dweight))
                    dpi += dscore * tau
                    tl.store(slopes + (V - 1), tl.sum(dscore * score) * _sigmoid(logit))
                tl.debug_barrier()
            tl.store(scratch_BK + b * K + k, dpi, in_k)
            tl.debug_barrier()
            # pi = a . tanh(cell + common)
            a = tl.load(a_P + p, in_p, 0.0)
            common = tl.load(common_TBP + now * P + p, in_p, 0.0)
            dcommon = tl.zeros((BLOCK_P,), kind)
            da = tl.load(da_BP + b * P + p, in_p, 0.0)
            for start in range(0, K, TILE_K):
                cells = start + tl.arange(0, TILE_K)
                inside = (cells < K)[:, None] & in_p[None, :]
                at = (b * K + cells[:, None]) * P + p[None, :]
                tanh = _tanh(tl.load(cells_BKP + at, inside, 0.0) + common[None, :])
                d = tl.load(scratch_BK + b * K + cells, cells < K, 0.0)
                da += tl.sum(d[:, None] * tanh, 0)
                drows = d[:, None] * a[None, :] * (1 - tanh * tanh)
                dcommon += tl.sum(drows, 0)
                drows += tl.load(dcells_BKP + at, inside, 0.0)
                tl.store(dcells_BKP + at, drows, inside)
            tl.store(da_BP + b * P + p, da, in_p)
            tl.store(dcommon_TBP + now * P + p, dcommon, in_p)
            tl.store(slopes + (V - 1 - P) + p, dcommon, in_p)
        tl.debug_barrier()
    if UNWRITE:  # the write of the step before; a masked step has written nothing
        before = now - B
        place = b * K + tl.load(written_TB + before)
        active = _active(mask_TB, before, MASKED)
        cell = place * C + q
        dmicro = tl.load(dcontent_BKC + cell, in_c, 0.0)
        old = tl.load(overwritten_TBC + before * C + q, in_c, 0.0)
        tl.debug_barrier()
        tl.store(slopes + q, tl.where(active, dmicro, 0.0), in_c)
        tl.store(dcontent_BKC + cell, tl.zeros((BLOCK_Q,), kind), in_c & active)
        tl.store(content_BKC + cell, old, in_c & active)
        if ADDRESSED:
            row = place * P + p
            drow = tl.load(dcells_BKP + row, in_p, 0.0)
            old_row = tl.load(overwritten_row_TBP + before * P + p, in_p, 0.0)
            tl.debug_barrier()
            drow = tl.where(active, drow, 0.0)
            tl.store(slopes + C + p, drow, in_p)
            tl.store(drow_TBP + before * P + p, drow, in_p)
            tl.store(dcells_BKP + row, tl.zeros((BLOCK_P,), kind), in_p & active)
            tl.store(cells_BKP + row, old_row, in_p & active)
