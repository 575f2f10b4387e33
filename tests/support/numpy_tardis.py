"""TARDIS written a second time, slowly, in NumPy float64 from the paper's equations alone.

Plain loops over time, batch and cells; nothing here is shared with `tardis_core`. `p` is a dict
of arrays under the names of the model's `state_dict` (torch's Linear layout: weight[out, in]).
Letters: T time, B batch, D input, H hidden, K cells, A address, C content, Q = A + C.
"""

from dataclasses import dataclass

import numpy as np

EPSILON = 1e-5
RESET_TEMPERATURE = 0.3
LAST_READ_PENALTY = 100.0


@dataclass
class Sample:
    """The state of one sequence: Algorithm 1's h and M, and what the addressing remembers."""

    h: np.ndarray  # (H,)
    c: np.ndarray  # (H,)
    content: np.ndarray  # (K, C)
    counts: np.ndarray  # (K,) reads so far
    last: int = -1  # the cell read last, -1 before the first read
    steps: int = 0  # steps taken so far

    def copy(self):
        return Sample(
            self.h.copy(),
            self.c.copy(),
            self.content.copy(),
            self.counts.copy(),
            self.last,
            self.steps,
        )


def sigmoid(a):
    return 1.0 / (1.0 + np.exp(-a))


def standardise(v):
    """Centre and divide by the (biased) standard deviation, over the whole vector."""
    mean = sum(v) / len(v)
    variance = sum((e - mean) ** 2 for e in v) / len(v)
    return np.array([(e - mean) / np.sqrt(variance + EPSILON) for e in v])


def log_softmax(v):
    shifted = v - v.max()
    return shifted - np.log(np.exp(shifted).sum())


def fresh_sample(H, K, C):
    return Sample(np.zeros(H), np.zeros(H), np.zeros((K, C)), np.zeros(K))


def read_logits(p, s, x):
    """pi[i] = a . tanh(W_h h + W_x x + W_m M[i] + W_u u + b), minus 100 at the last read."""
    u = standardise(s.counts)
    K = len(s.counts)
    pi = np.zeros(K)
    for i in range(K):
        cell = np.concatenate([p["address_KA"][i], s.content[i]])
        inside = (
            p["addressing.W_h.weight"] @ s.h
            + p["addressing.W_x.weight"] @ x
            + p["addressing.W_x.bias"]
            + p["addressing.W_m.weight"] @ cell
            + p["addressing.W_u.weight"] @ u
        )
        pi[i] = p["addressing.a"] @ np.tanh(inside)
    if s.last >= 0:
        pi[s.last] -= LAST_READ_PENALTY
    return pi


def gates(p, h, x, r, reset_noise, *, reset_gates, layer_norm):
    """f, i, o, the candidate, and (alpha, beta)."""
    H = len(h)
    W_h, W_x, W_r = (p[f"controller.{name}.weight"] for name in ("W_h", "W_x", "W_r"))
    b = p["controller.b"]
    alpha_beta = np.ones(2)
    if reset_gates:
        for n in range(2):
            row = 4 * H + n
            logit = W_h[row] @ h + W_x[row] @ x + W_r[row] @ r + b[row]
            noise = 0.0 if reset_noise is None else reset_noise[n]
            alpha_beta[n] = sigmoid((logit + noise) / RESET_TEMPERATURE)
    alpha, beta = alpha_beta
    outputs = []
    for gate in range(4):
        rows = slice(gate * H, (gate + 1) * H)
        on_h, on_r = (beta, alpha) if gate == 3 else (1.0, 1.0)
        pre = on_h * (W_h[rows] @ h) + W_x[rows] @ x + on_r * (W_r[rows] @ r)
        if layer_norm:
            pre = standardise(pre) * p["controller.gain"][gate]
        pre = pre + b[rows]
        outputs.append(np.tanh(pre) if gate == 3 else sigmoid(pre))
    return (*outputs, alpha_beta)


def tardis(
    p,
    x_TBD,
    *,
    K,
    C,
    mask_TB=None,
    read_noise_TBK=None,
    reset_noise_TB2=None,
    dropout_TBH=None,
    state=None,
    reset_gates=True,
    layer_norm=False,
):
    """Run TARDIS; steps outside the mask leave the state alone and their outputs stay NaN."""
    T, B, _ = x_TBD.shape
    H = p["W_m.weight"].shape[1]
    Q = p["address_KA"].shape[1] + C
    out = {
        "h": np.full((T, B, H), np.nan),
        "r": np.full((T, B, Q), np.nan),
        "pi": np.full((T, B, K), np.nan),
        "read": np.full((T, B), -1),
        "written": np.full((T, B), -1),
        "reset": np.full((T, B, 2), np.nan),
    }
    samples = [fresh_sample(H, K, C) if state is None else state[n].copy() for n in range(B)]
    for t in range(T):
        for n in range(B):
            if mask_TB is not None and not mask_TB[t, n]:
                continue
            s, x = samples[n], x_TBD[t, n]
            pi = read_logits(p, s, x)
            noisy = pi if read_noise_TBK is None else pi + read_noise_TBK[t, n]
            cell = int(np.argmax(noisy))
            r = np.concatenate([p["address_KA"][cell], s.content[cell]])
            noise = None if reset_noise_TB2 is None else reset_noise_TB2[t, n]
            f, i, o, g, alpha_beta = gates(
                p, s.h, x, r, noise, reset_gates=reset_gates, layer_norm=layer_norm
            )
            if dropout_TBH is not None:
                g = g * dropout_TBH[t, n]
            s.c = f * s.c + i * g
            s.h = o * np.tanh(s.c)
            target = s.steps if s.steps < K else cell
            s.content[target] = p["W_m.weight"] @ s.h
            s.counts[cell] += 1
            s.last = cell
            s.steps += 1
            out["h"][t, n], out["r"][t, n], out["pi"][t, n] = s.h, r, pi
            out["read"][t, n], out["written"][t, n] = cell, target
            out["reset"][t, n] = alpha_beta
    out["state"] = samples
    return out


def output_logits(p, h_TBH, r_TBQ):
    """W_o relu(g_h h + b + g_r r) + b."""
    T, B, _ = h_TBH.shape
    rows = []
    for t in range(T):
        for n in range(B):
            inside = p["g_h.weight"] @ h_TBH[t, n] + p["g_h.bias"] + p["g_r.weight"] @ r_TBQ[t, n]
            rows.append(p["W_o.weight"] @ np.maximum(inside, 0.0) + p["W_o.bias"])
    return np.array(rows).reshape(T, B, -1)


def memory_logits(p, r_TBQ, x_TBD):
    """W_r r + b + W_x x."""
    T, B, _ = r_TBQ.shape
    rows = [
        p["W_r.weight"] @ r_TBQ[t, n] + p["W_r.bias"] + p["W_x.weight"] @ x_TBD[t, n]
        for t in range(T)
        for n in range(B)
    ]
    return np.array(rows).reshape(T, B, -1)


def lstm(p, x_TBD, *, layer_norm, dropout_TBH=None, mask_TB=None):
    """The same LSTM without a memory: rows f, i, o, g."""
    T, B, _ = x_TBD.shape
    H = p["W_h.weight"].shape[1]
    h_TBH = np.full((T, B, H), np.nan)
    h, c = np.zeros((B, H)), np.zeros((B, H))
    for t in range(T):
        for n in range(B):
            if mask_TB is not None and not mask_TB[t, n]:
                continue
            values = []
            for gate in range(4):
                rows = slice(gate * H, (gate + 1) * H)
                pre = p["W_h.weight"][rows] @ h[n] + p["W_x.weight"][rows] @ x_TBD[t, n]
                if layer_norm:
                    pre = standardise(pre) * p["gain"][gate]
                pre = pre + p["b"][rows]
                values.append(np.tanh(pre) if gate == 3 else sigmoid(pre))
            f, i, o, g = values
            if dropout_TBH is not None:
                g = g * dropout_TBH[t, n]
            c[n] = f * c[n] + i * g
            h[n] = o * np.tanh(c[n])
            h_TBH[t, n] = h[n]
    return h_TBH, h, c
