"""The baselines in NumPy, one sequence at a time, written from the equations of their papers.

Every function takes the parameters by name and x as (T, D), and returns a dictionary of what the
model makes of each step. Gates stand in the order f, i, o, g.
"""

import numpy as np


def sigm(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def softplus(x):
    return np.log1p(np.exp(x))


def layer_norm(x, eps=1e-5):
    return (x - x.mean()) / np.sqrt(x.var() + eps)


def lstm_step(p, x, h, c, r=None):
    """f, i, o, g from W_h h + W_x x + W_r r + b, without layer normalisation."""
    z = p["W_h.weight"] @ h + p["W_x.weight"] @ x + p["b"]
    if r is not None:
        z = z + p["W_r.weight"] @ r
    f, i, o, g = np.split(z, 4)
    c = sigm(f) * c + sigm(i) * np.tanh(g)
    return sigm(o) * np.tanh(c), c


def part(p, prefix):
    return {name[len(prefix) :]: value for name, value in p.items() if name.startswith(prefix)}


def cosine(u, v, eps=1e-8):
    return u @ v / (np.linalg.norm(u) * np.linalg.norm(v) + eps)


def zoneout(p, x, d_c, d_h):
    """d_c and d_h: masks of shape (T, H), or the shares as numbers."""
    H = p["controller.W_h.weight"].shape[1]
    h, c, outputs = np.zeros(H), np.zeros(H), []
    for t in range(len(x)):
        new_h, new_c = lstm_step(part(p, "controller."), x[t], h, c)
        keep_c, keep_h = (d[t] if np.ndim(d) else d for d in (d_c, d_h))
        c = keep_c * c + (1 - keep_c) * new_c
        h = keep_h * h + (1 - keep_h) * new_h
        outputs.append(h)
    return {"h": np.array(outputs)}


def clockwork(p, x, groups):
    blocks = [p[f"W_H.{n}"] for n in range(groups)]
    H = blocks[0].shape[1]
    h, outputs = np.zeros(H), []
    starts = [H - block.shape[1] for block in blocks]
    for t in range(len(x)):
        new = h.copy()
        for n, (start, block) in enumerate(zip(starts, blocks, strict=True)):
            if t % 2**n == 0:
                rows = slice(start, start + len(block))
                z = block @ h[start:] + p["W_I.weight"][rows] @ x[t] + p["W_I.bias"][rows]
                new[rows] = np.tanh(z)
        h = new
        outputs.append(h)
    return {"h": np.array(outputs)}


def mrnn(p, x):
    h, outputs = np.zeros(p["W_fh.weight"].shape[1]), []
    for t in range(len(x)):
        chosen = np.diag(p["W_fx.weight"] @ x[t] + p["W_fx.bias"])
        recurrent = p["W_hf.weight"] @ chosen @ p["W_fh.weight"]
        h = np.tanh(recurrent @ h + p["W_hx.weight"] @ x[t] + p["W_hx.bias"])
        outputs.append(h)
    return {"h": np.array(outputs)}


def rhn(p, x, L, dropout=None):
    """dropout: of shape (T, L, H)."""
    H = p["R.0.weight"].shape[1]
    s, outputs = np.zeros(H), []
    for t in range(len(x)):
        for n in range(L):
            z = p[f"R.{n}.weight"] @ s + p[f"R.{n}.bias"] + (n == 0) * (p["W.weight"] @ x[t])
            candidate = np.tanh(z[:H]) * (1 if dropout is None else dropout[t, n])
            s = candidate * sigm(z[H:]) + s * (1 - sigm(z[H:]))
        outputs.append(s)
    return {"h": np.array(outputs)}


def ntm(p, x, K, C):
    H = p["controller.W_h.weight"].shape[1]
    h, c = np.zeros(H), np.zeros(H)
    M = np.full((K, C), 1e-6)
    w = [softmax(row) for row in p["w_SK"]]
    r = np.tanh(p["r_C"])
    hs, rs, ws = [], [], []
    for t in range(len(x)):
        h, c = lstm_step(part(p, "controller."), x[t], h, c, r)
        z = (p["W_address.weight"] @ h + p["W_address.bias"]).reshape(2, C + 6)
        for head in range(2):
            k, beta = np.tanh(z[head, :C]), softplus(z[head, C])
            g, s = sigm(z[head, C + 1]), softmax(z[head, C + 2 : C + 5])
            gamma = 1 + softplus(z[head, C + 5])
            content = softmax(np.array([beta * cosine(k, M[i]) for i in range(K)]))
            gated = g * content + (1 - g) * w[head]
            # s[0] moves a weight one cell back, s[2] one cell on
            shifted = np.array(
                [
                    sum(gated[j] * s[(i - j + 1) % K] for j in range(K) if (i - j + 1) % K < 3)
                    for i in range(K)
                ]
            )
            sharp = (shifted + 1e-8) ** gamma
            w[head] = sharp / sharp.sum()
        r = w[0] @ M
        e, a = np.split(p["W_write.weight"] @ h + p["W_write.bias"], 2)
        M = np.array([M[i] * (1 - w[1][i] * sigm(e)) + w[1][i] * a for i in range(K)])
        hs.append(h)
        rs.append(r)
        ws.append(np.array(w))
    return {"h": np.array(hs), "r": np.array(rs), "w": np.array(ws), "memory": M}


def dntm(p, x, discrete=False, noise=None):
    """The last cell is the NO-OP; noise: (read, write) of shape (T, K), for the discrete form."""
    A = p["address_KA"]
    K, C = len(A), (len(p["W_h.weight"]) - 1) // 2
    H = p["controller.W_h.weight"].shape[1]
    h, c, content = np.zeros(H), np.zeros(H), np.zeros((K, C))
    v = {"read": np.zeros(K), "write": np.zeros(K)}
    outputs = {"h": [], "r": [], "read": [], "written": []}

    def weights(head, h, extra):
        z = p[f"{head}_head.W.weight"] @ h + p[f"{head}_head.W.bias"]
        key, beta, gamma = z[:-2], softplus(z[-2]) + 1, sigm(z[-1])
        M = np.concatenate([A, content], axis=1)
        logits = np.array([beta * cosine(key, M[i]) for i in range(K)])
        pi = logits - gamma * v[head]
        v[head] = 0.1 * v[head] + 0.9 * logits
        return np.eye(K)[np.argmax(pi + extra)] if discrete else softmax(pi)

    for t in range(len(x)):
        read = weights("read", h, noise[0][t] if noise else 0)
        r = sum(read[i] * np.concatenate([A[i], content[i]]) for i in range(K - 1))
        h, c = lstm_step(part(p, "controller."), x[t], h, c, r)
        write = weights("write", h, noise[1][t] if noise else 0)
        zh, zx = p["W_h.weight"] @ h + p["W_h.bias"], p["W_x.weight"] @ x[t]
        erase, alpha = sigm(zh[:C]), sigm(zh[-1] + zx[-1])
        new = np.maximum(0, zh[C : 2 * C] + alpha * zx[:C])
        for i in range(K - 1):
            content[i] = (1 - write[i] * erase) * content[i] + write[i] * new
        outputs["h"].append(h)
        outputs["r"].append(r)
        outputs["read"].append(read.argmax())
        outputs["written"].append(write.argmax())
    return {name: np.array(values) for name, values in outputs.items()}


def hyper_lstm(p, x):
    """With layer normalisation of both LSTMs."""
    H, N = p["W_h.weight"].shape[1], p["hyper.W_h.weight"].shape[1]
    Z = p["W_d"].shape[1]
    h, c, small_h, small_c, outputs = np.zeros(H), np.zeros(H), np.zeros(N), np.zeros(N), []
    for t in range(len(x)):
        small = part(p, "hyper.")
        z = small["W_h.weight"] @ small_h + small["W_x.weight"] @ x[t] + small["W_r.weight"] @ h
        gates = [
            layer_norm(row) * small["gain"][n] + small["b"][n * N : (n + 1) * N]
            for n, row in enumerate(z.reshape(4, N))
        ]
        small_c = sigm(gates[0]) * small_c + sigm(gates[1]) * np.tanh(gates[3])
        small_h = sigm(gates[2]) * np.tanh(small_c)
        e = (p["W_z.weight"] @ small_h + p["W_z.bias"]).reshape(3, 4, Z)
        D = p["W_d"].reshape(3, 4, Z, H)
        rows = slice_rows(p["W_h.weight"], H), slice_rows(p["W_x.weight"], H)
        y = []
        for n in range(4):
            d_h, d_x, b = (e[source, n] @ D[source, n] for source in range(3))
            inner = d_h * (rows[0][n] @ h) + d_x * (rows[1][n] @ x[t]) + b + p["b"][n, 0]
            y.append(layer_norm(inner) * p["gain"][n, 0] + p["shift"][n, 0])
        c = sigm(y[0]) * c + sigm(y[1]) * np.tanh(y[3])
        h = sigm(y[2]) * np.tanh(layer_norm(c) * p["gain"][4, 0] + p["shift"][4, 0])
        outputs.append(h)
    return {"h": np.array(outputs)}


def slice_rows(W, H):
    return [W[n * H : (n + 1) * H] for n in range(4)]


def hm_lstm(p, x, L):
    """The three operations by name."""
    H = p["layers.0.U.weight"].shape[1] // 2

    def normal(layer, s):  # of each gate
        if "gain" not in layer:
            return s
        spread = np.sqrt(s.var(1, keepdims=True) + 1e-5)
        return (s - s.mean(1, keepdims=True)) / spread * layer["gain"] + layer["shift"]

    h, c, z = [np.zeros(H)] * L, [np.zeros(H)] * L, [0] * (L + 1)  # z[l + 1] is of layer l
    outputs, operations = [], []
    for t in range(len(x)):
        new_h, new_c, new_z, names = [], [], [1], []
        for n in range(L):
            layer, top = part(p, f"layers.{n}."), n == L - 1
            own = 0 if top else z[n + 1]
            heard = h[n] if top else np.concatenate([h[n], own * h[n + 1]])
            below = x[t] if n == 0 else new_h[-1] * new_z[-1]
            s = layer["U.weight"] @ heard + layer["W.weight"] @ below + layer["W.bias"]
            f, i, o, g = normal(layer, s[: 4 * H].reshape(4, H))
            if own:
                names.append("flush")
                new_c.append(sigm(i) * np.tanh(g))
            elif new_z[-1]:
                names.append("update")
                new_c.append(sigm(f) * c[n] + sigm(i) * np.tanh(g))
            else:
                names.append("copy")
                new_c.append(c[n])
            new_h.append(h[n] if names[-1] == "copy" else sigm(o) * np.tanh(new_c[-1]))
            new_z.append(0 if top else int(s[4 * H] > 0))
        h, c, z = new_h, new_c, new_z
        gates = sigm(p["output_gates.weight"] @ np.concatenate(h) + p["output_gates.bias"])
        outputs.append(np.concatenate([gates[n] * h[n] for n in range(L)]))
        operations.append(names)
    return {"h": np.array(outputs), "operations": operations}


def bn_lstm(p, x_TBD, mask_TB):
    """Training: moments over the sequences that have the step. Returns also all that BN sees."""
    T, B, _ = x_TBD.shape
    H = p["W_h.weight"].shape[1]
    gain = np.split(p["gain_W"], [4 * H, 8 * H])
    h, c = np.zeros((B, H)), np.zeros((B, H))
    outputs, seen = np.zeros((T, B, H)), np.zeros((T, B, 9 * H))

    def bn(values, here, gain):
        mean, variance = values[here].mean(0), values[here].var(0)
        return (values - mean) / np.sqrt(variance + 1e-5) * gain

    for t in range(T):
        here = mask_TB[t]
        zh, zx = h @ p["W_h.weight"].T, x_TBD[t] @ p["W_x.weight"].T
        z = bn(zh, here, gain[0]) + bn(zx, here, gain[1]) + p["b"]
        f, i, o, g = np.split(z, 4, axis=1)
        new_c = sigm(f) * c + sigm(i) * np.tanh(g)
        new_h = sigm(o) * np.tanh(bn(new_c, here, gain[2]) + p["shift_H"])
        outputs[t], seen[t] = new_h, np.concatenate([zh, zx, new_c], axis=1)
        h, c = (np.where(here[:, None], new, old) for new, old in ((new_h, h), (new_c, c)))
    return {"h": outputs, "seen": seen}


def attention(p, x, boundary):
    """h* of every step; `boundary` is the step at which the second text begins, or len(x)."""
    premise, hypothesis = x[:boundary], x[boundary:]
    H = p["first.W_h.weight"].shape[1]
    Y, h, c = [], np.zeros(H), np.zeros(H)
    outputs = []
    for word in premise:
        h, c = lstm_step(part(p, "first."), word, h, c)
        Y.append(h)
        outputs.append(np.tanh(p["attend.W_x.weight"] @ h))
    h, r = np.zeros(H), np.zeros(H)
    for word in hypothesis:
        h, c = lstm_step(part(p, "second."), word, h, c)
        r = attention_step(p, Y, h, r)
        outputs.append(np.tanh(p["attend.W_p.weight"] @ r + p["attend.W_x.weight"] @ h))
    return np.array(outputs)


def attention_step(p, Y, h, r):
    W_r, W_t = np.split(p["attend.W_r.weight"], 2)
    kept = np.tanh(W_t @ r)
    if not Y:
        return kept
    inner = p["attend.W_h.weight"] @ h + W_r @ r
    scores = np.array([p["attend.w"] @ np.tanh(p["attend.W_y.weight"] @ y + inner) for y in Y])
    return sum(a * y for a, y in zip(softmax(scores), Y, strict=True)) + kept


def two_way(p, x, boundary):
    """Both readings; the exchanged one is done anew for every end of the second text."""
    ahead = attention(p, x, boundary)
    H = ahead.shape[1]
    exchanged = [np.zeros(H) for _ in range(min(boundary, len(x)))]
    for end in range(boundary + 1, len(x) + 1):
        texts = np.concatenate([x[boundary:end], x[:boundary]])
        if boundary:
            exchanged.append(attention(p, texts, end - boundary)[-1])
        else:  # nothing to read: neither h nor r ever moved
            exchanged.append(np.zeros(H))
    return np.concatenate([ahead, np.array(exchanged)], axis=1)
