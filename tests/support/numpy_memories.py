"""Memory models in NumPy, one sequence at a time, written from the equations of their papers.

Every function takes the parameters by name and x as (T, D), as those of `numpy_baselines` do.
"""

import numpy as np

from tests.support.numpy_baselines import cosine, lstm_step, part, sigm, softmax, softplus


def dnc(p, x, K, C, R):
    H = p["controller.W_h.weight"].shape[1]
    h, c, r = np.zeros(H), np.zeros(H), np.zeros(R * C)
    M, u, L, prec = np.full((K, C), 1e-6), np.zeros(K), np.zeros((K, K)), np.zeros(K)
    ww, wr = np.zeros(K), np.zeros((R, K))
    outputs = {"h": [], "r": []}

    def content(M, key, beta):
        return softmax(np.array([beta * cosine(key, M[i]) for i in range(K)]))

    for t in range(len(x)):
        h, c = lstm_step(part(p, "controller."), x[t], h, c, r)
        xi = p["W_interface.weight"] @ h + p["W_interface.bias"]
        read_keys, xi = xi[: R * C].reshape(R, C), xi[R * C :]
        read_betas, xi = 1 + softplus(xi[:R]), xi[R:]
        write_key, xi = xi[:C], xi[C:]
        write_beta, xi = 1 + softplus(xi[0]), xi[1:]
        e, v, xi = sigm(xi[:C]), xi[C : 2 * C], xi[2 * C :]
        free, xi = sigm(xi[:R]), xi[R:]
        g_a, g_w, modes = sigm(xi[0]), sigm(xi[1]), xi[2:].reshape(R, 3)
        psi = np.ones(K)
        for n in range(R):
            psi = psi * (1 - free[n] * wr[n])
        u = (u + ww - u * ww) * psi
        kept_above_zero = 1e-6 + (1 - 1e-6) * u
        a, in_use = np.zeros(K), 1.0
        for i in np.argsort(kept_above_zero, kind="stable"):
            a[i] = (1 - kept_above_zero[i]) * in_use
            in_use *= kept_above_zero[i]
        ww = g_w * (g_a * a + (1 - g_a) * content(M, write_key, write_beta))
        M = M * (1 - np.outer(ww, e)) + np.outer(ww, v)
        L = np.array(
            [
                [0 if i == j else (1 - ww[i] - ww[j]) * L[i, j] + ww[i] * prec[j] for j in range(K)]
                for i in range(K)
            ]
        )
        prec = (1 - ww.sum()) * prec + ww
        new = []
        for n in range(R):
            back, similar, on = softmax(modes[n])
            match = content(M, read_keys[n], read_betas[n])
            new.append(back * (L.T @ wr[n]) + similar * match + on * (L @ wr[n]))
        wr = np.array(new)
        r = (wr @ M).ravel()
        outputs["h"].append(h)
        outputs["r"].append(r)
    return {name: np.array(values) for name, values in outputs.items()} | {"usage": u, "link": L}


def sam(p, x, K, C, N):
    H = p["controller.W_h.weight"].shape[1]
    h, c, r = np.zeros(H), np.zeros(H), np.zeros(C)
    M, wr, last_access = np.zeros((K, C)), np.zeros(K), [-1] * K
    outputs = {"h": [], "r": [], "taken": []}
    for t in range(len(x)):
        h, c = lstm_step(part(p, "controller."), x[t], h, c, r)
        z = p["W_p.weight"] @ h + p["W_p.bias"]
        q, a, beta = z[:C], z[C : 2 * C], 1 + softplus(z[2 * C])
        alpha, gamma = sigm(z[2 * C + 1]), sigm(z[2 * C + 2])
        oldest = last_access.index(min(last_access))
        ww = alpha * gamma * wr
        ww[oldest] += alpha * (1 - gamma)
        M = M.copy()
        M[oldest] = 0
        M = M + np.outer(ww, a)
        scores = [beta * cosine(q, M[i]) for i in range(K)]
        chosen = sorted(range(K), key=lambda i: (-scores[i], i))[:N]
        wr = np.zeros(K)
        wr[chosen] = softmax(np.array([scores[i] for i in chosen]))
        r = sum(wr[i] * M[i] for i in chosen)
        last_access = [t if wr[i] + ww[i] > 0.005 else last_access[i] for i in range(K)]
        outputs["h"].append(h)
        outputs["r"].append(r)
        outputs["taken"].append(oldest)
    return {name: np.array(values) for name, values in outputs.items()}


def lstmn(p, x, K):
    H = p["controller.W_h.weight"].shape[1]
    tape, read, outputs = [], np.zeros(H), []
    for t in range(len(x)):
        cell = np.zeros(H)
        if tape:
            query = p["W_x.weight"] @ x[t] + p["W_x.bias"] + p["W_read.weight"] @ read
            a = np.array([p["v"] @ np.tanh(p["W_h.weight"] @ h + query) for h, _ in tape])
            s = softmax(a)
            read = sum(w * h for w, (h, _) in zip(s, tape, strict=True))
            cell = sum(w * c for w, (_, c) in zip(s, tape, strict=True))
        h, c = lstm_step(part(p, "controller."), x[t], read, cell)
        tape = [*tape, (h, c)][-K:]
        outputs.append(h)
    return {"h": np.array(outputs)}


def stack_rnn(p, x, K, S, k):
    H = p["R.weight"].shape[0]
    h, stacks, outputs = np.zeros(H), [[-1.0] * K for _ in range(S)], []
    for t in range(len(x)):
        seen = np.array([stacks[n][i] for i in range(k) for n in range(S)])
        z = p["U.weight"] @ x[t] + p["U.bias"] + p["R.weight"] @ h + p["P.weight"] @ seen
        h = sigm(z)
        actions = (p["A.weight"] @ h + p["A.bias"]).reshape(3, S)
        pushed = sigm(p["D.weight"] @ h + p["D.bias"])
        for n in range(S):
            push, pop, stay = softmax(actions[:, n])
            old = [pushed[n], *stacks[n], -1.0]  # one above the top, one below the last cell
            stacks[n] = [push * old[i] + pop * old[i + 2] + stay * old[i + 1] for i in range(K)]
        outputs.append(h)
    return {"h": np.array(outputs), "stacks": np.array(stacks).T}


def neural_stack(p, x, C, pushed_at, taken_at):
    """Without a bound: a list of (strength, value), from the bottom to the top."""
    H = p["controller.W_h.weight"].shape[1]
    h, c, r = np.zeros(H), np.zeros(H), np.zeros(len(taken_at) * C)
    items, outputs = [], {"h": [], "r": []}

    def from_end(end):
        numbers = range(len(items))
        return reversed(numbers) if end == "top" else numbers

    for t in range(len(x)):
        h, c = lstm_step(part(p, "controller."), x[t], h, c, r)
        z = p["W_o.weight"] @ h + p["W_o.bias"]
        pushes, pops = len(pushed_at), len(taken_at)
        d, u = sigm(z[:pushes]), sigm(z[pushes : pushes + pops])
        v = np.tanh(z[pushes + pops :]).reshape(pushes, C)
        for n, end in enumerate(taken_at):
            left = u[n]
            for i in from_end(end):
                taken = min(left, items[i][0])
                items[i] = (items[i][0] - taken, items[i][1])
                left -= taken
        for n, end in enumerate(pushed_at):
            items.insert(len(items) if end == "top" else 0, (d[n], v[n]))
        parts = []
        for end in taken_at:
            left, match = 1.0, np.zeros(C)
            for i in from_end(end):
                weight = min(left, items[i][0])
                match = match + weight * items[i][1]
                left -= weight
            parts.append(match)
        r = np.concatenate(parts)
        outputs["h"].append(h)
        outputs["r"].append(r)
    return {name: np.array(values) for name, values in outputs.items()}


def armin(p, x, K, C, noise=None):
    """noise: of shape (T, K)."""
    H = len(p["h_H"])
    h, M = np.tanh(p["h_H"]), p["memory_KC"].copy()
    outputs = {"h": [], "r": [], "read": [], "written": []}

    def from_x(n, x):
        return p[f"from_x.{n}.weight"] @ x + p[f"from_x.{n}.bias"]

    for t in range(len(x)):
        pi = from_x(0, x[t]) + p["W_pi.weight"] @ h + (0 if noise is None else noise[t])
        read = int(np.argmax(pi))
        r = M[read].copy()
        seen = np.concatenate([h, r])
        gated = seen * sigm(from_x(1, x[t]) + p["W_g.weight"] @ seen)
        z = from_x(2, x[t]) + p["W.weight"] @ gated
        i, j, f, o_h, o_r = np.split(z, [H, 2 * H, 3 * H, 4 * H])
        h = np.tanh(sigm(f) * h + sigm(i) * np.tanh(j))
        written = t if t < K else read
        M[written] = from_x(3, x[t]) + p["W_m.weight"] @ h
        outputs["h"].append(sigm(o_h) * h)
        outputs["r"].append(sigm(o_r) * r)
        outputs["read"].append(read)
        outputs["written"].append(written)
    return {name: np.array(values) for name, values in outputs.items()}
