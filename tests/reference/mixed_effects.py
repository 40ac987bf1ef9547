"""Restricted maximum likelihood by EM, literally (Laird and Ware, 1982), participant by participant, on the data."""

import numpy as np


def em(xs, ys, *, steps, diagonal=True):
    """β, Ψ, σ² and every b after so many steps; `xs` and `ys` hold one array for each participant."""
    d, n = xs[0].shape[1], sum(len(y) for y in ys)
    psi, sigma2 = np.eye(d), 1.0
    for _ in range(steps):
        inverses = [np.linalg.inv(sigma2 * np.eye(len(y)) + x @ psi @ x.T) for x, y in zip(xs, ys, strict=True)]
        information = sum(x.T @ v @ x for x, v in zip(xs, inverses, strict=True))
        known = np.linalg.inv(information)
        beta = known @ sum(x.T @ v @ y for x, y, v in zip(xs, ys, inverses, strict=True))
        second, residual, deviations = np.zeros((d, d)), 0.0, []
        for x, y, v in zip(xs, ys, inverses, strict=True):
            projection = v - v @ x @ known @ x.T @ v
            b = psi @ x.T @ v @ (y - x @ beta)
            e = y - x @ beta - x @ b
            second += np.outer(b, b) + psi - psi @ x.T @ projection @ x @ psi
            residual += e @ e + sigma2 * np.trace(np.eye(len(y)) - sigma2 * projection)
            deviations.append(b)
        psi = second / len(xs)
        psi = np.diag(np.diag(psi)) if diagonal else psi
        sigma2 = residual / n
    return beta, psi, sigma2, np.array(deviations)


def deviance(xs, ys, psi, sigma2):
    """−2 log restricted likelihood from the covariance of all outcomes, but for a constant."""
    x, y = np.concatenate(xs), np.concatenate(ys)
    whole, at = np.zeros((len(y), len(y))), 0
    for own in xs:
        here = slice(at, at + len(own))
        whole[here, here] = sigma2 * np.eye(len(own)) + own @ psi @ own.T
        at += len(own)
    inverse = np.linalg.inv(whole)
    information = x.T @ inverse @ x
    left = y - x @ np.linalg.solve(information, x.T @ inverse @ y)
    return np.linalg.slogdet(whole)[1] + np.linalg.slogdet(information)[1] + left @ inverse @ left


def solve_shared(xs, zs, ys, psi, tau, sigma2, currents):
    """Columns Z that everybody shares, with coefficients ~ N(0, diag τ), from the covariance of all outcomes.

    −2 log restricted likelihood but for a constant, β, Z's coefficients, and mean and covariance of every participant's
    β + bᵢ + (their matrix of `currents`) times Z's coefficients; β has a flat prior.
    """
    x, z, y = np.concatenate(xs), np.concatenate(zs), np.concatenate(ys)
    people, d = len(xs), x.shape[1]
    design = np.zeros((len(y), people * d))
    for i, person in enumerate(np.repeat(np.arange(people), [len(own) for own in ys])):
        design[i, person * d : (person + 1) * d] = x[i]
    random = np.hstack([design, z])
    prior = np.zeros((random.shape[1],) * 2)
    prior[: people * d, : people * d] = np.kron(np.eye(people), psi)
    prior[people * d :, people * d :] = np.diag(tau)
    covariance = sigma2 * np.eye(len(y)) + random @ prior @ random.T
    inverse = np.linalg.inv(covariance)
    information = x.T @ inverse @ x
    beta = np.linalg.solve(information, x.T @ inverse @ y)
    left = y - x @ beta
    value = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(information)[1] + left @ inverse @ left
    u = prior @ random.T @ inverse @ left
    # (β, u) jointly: what is not known of u given β, and of β.
    gain = prior @ random.T @ inverse
    given = prior - gain @ random @ prior
    of_beta = np.linalg.inv(information)
    joint = np.block([[of_beta, -of_beta @ (gain @ x).T], [-gain @ x @ of_beta, given + gain @ x @ of_beta @ (gain @ x).T]])
    means, covariances = [], []
    for i, current in enumerate(currents):
        select = np.zeros((d, d + len(u)))
        select[:, :d] = np.eye(d)
        select[:, d + i * d : d + (i + 1) * d] = np.eye(d)
        select[:, d + people * d :] = current
        means.append(select @ np.append(beta, u))
        covariances.append(select @ joint @ select.T)
    return value, beta, u[people * d :], np.array(means), np.array(covariances)
