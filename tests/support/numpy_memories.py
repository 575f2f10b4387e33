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
    made = {"h": [], "r": []}

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
            found = content(M, read_keys[n], read_betas[n])
            new.append(back * (L.T @ wr[n]) + similar * found + on * (L @ wr[n]))
        wr = np.array(new)
        r = (wr @ M).ravel()
        made["h"].append(h)
        made["r"].append(r)
    return {name: np.array(values) for name, values in made.items()} | {"usage": u, "link": L}


def sam(p, x, K, C, N):
    H = p["controller.W_h.weight"].shape[1]
    h, c, r = np.zeros(H), np.zeros(H), np.zeros(C)
    M, wr, last_access = np.zeros((K, C)), np.zeros(K), [-1] * K
    made = {"h": [], "r": [], "taken": []}
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
        made["h"].append(h)
        made["r"].append(r)
        made["taken"].append(oldest)
    return {name: np.array(values) for name, values in made.items()}
