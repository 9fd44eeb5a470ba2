"""Linear algebra, with gradients. Vectors of decompositions have no signs of their own: what is compared does not
depend on them."""
import torch

import figures

torch.manual_seed(1)
L = torch.linalg


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def spd(*shape):
    x = draw(*shape)
    return x @ x.mT + 2 * torch.eye(shape[-1], dtype=torch.float64)


def sym(a):
    return (a + a.mT) / 2


def svd_free(a, full=False):
    u, s, v = L.svd(a, full_matrices=full)
    return (u * s.sqrt().unsqueeze(-2)) @ v


def eigh_free(a):
    l, v = L.eigh(sym(a))
    return v @ torch.diag_embed(l ** 3) @ v.mT + (v ** 2)


def lu_all(a):
    p, l, u = L.lu(a)
    return p @ (l * 2) + u.sin()


def triangular(upper, left, unit):
    return lambda a, b: L.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)


wide_diagonal = draw(2, 3, 3) + 3 * torch.eye(3, dtype=torch.float64)
square, tall, wide = draw(2, 3, 3), draw(4, 2), draw(2, 4)
CASES = {
    "cholesky": (lambda a: L.cholesky(sym(a)), [spd(2, 3, 3)]),
    "cholesky upper": (lambda a: L.cholesky(sym(a), upper=True), [spd(3, 3)]),
    "solve_triangular upper": (triangular(True, True, False), [wide_diagonal, draw(2, 3, 2)]),
    "solve_triangular lower": (triangular(False, True, False), [wide_diagonal, draw(3, 2)]),
    "solve_triangular right": (triangular(True, False, False), [wide_diagonal, draw(2, 2, 3)]),
    "solve_triangular unit": (triangular(False, True, True), [wide_diagonal, draw(2, 3, 2)]),
    "solve": (L.solve, [square, draw(2, 3, 2)]),
    "solve vector": (L.solve, [draw(3, 3), draw(3)]),
    "solve vectors": (L.solve, [square, draw(2, 3)]),
    "solve right": (lambda a, b: L.solve(a, b, left=False), [square, draw(2, 2, 3)]),
    "inv": (L.inv, [square]),
    "det": (L.det, [square]),
    "slogdet": (lambda a: torch.stack(list(L.slogdet(a))), [square]),
    "lu": (lu_all, [square]),
    "qr": (lambda a: L.qr(a)[0] + 0 * a, [square]),
    "qr tall": (lambda a: L.qr(a)[0] * 2 + 1, [tall]),
    "qr r tall": (lambda a: L.qr(a)[1].sin(), [tall]),
    "qr wide": (lambda a: L.qr(a)[0] @ L.qr(a)[1].sin(), [wide]),
    "svd": (svd_free, [square]),
    "svd tall": (svd_free, [tall]),
    "svd wide": (svd_free, [wide]),
    "svd full": (lambda a: svd_free(a, True), [square]),
    "svdvals": (L.svdvals, [tall]),
    "eigh": (eigh_free, [spd(2, 3, 3)]),
    "eigvalsh": (lambda a: L.eigvalsh(sym(a)), [spd(2, 3, 3)]),
    "pinv tall": (L.pinv, [tall]),
    "pinv wide": (L.pinv, [wide]),
    "lstsq": (lambda a, b: L.pinv(a) @ b, [tall, draw(4, 3)]),
    "matrix_exp": (L.matrix_exp, [square]),
    "matrix_exp large": (L.matrix_exp, [square[0] * 5]),
    "norm": (L.norm, [square]),
    "vector_norm 1": (lambda a: L.vector_norm(a, 1, dim=1), [square]),
    "vector_norm 3": (lambda a: L.vector_norm(a, 3, dim=(0, 2), keepdim=True), [square]),
    "vector_norm inf": (lambda a: L.vector_norm(a, float("inf"), dim=-1), [square]),
    "vector_norm -inf": (lambda a: L.vector_norm(a, -float("inf"), dim=0), [square]),
    "vector_norm 0.5": (lambda a: L.vector_norm(a, 0.5), [square]),
    "matrix_norm fro": (L.matrix_norm, [square]),
    "matrix_norm nuc": (lambda a: L.matrix_norm(a, "nuc", dim=(0, 1)), [square]),
    "matrix_norm 1": (lambda a: L.matrix_norm(a, 1, keepdim=True), [square]),
    "matrix_norm -2": (lambda a: L.matrix_norm(a, -2), [square]),
    "matrix_norm inf": (lambda a: L.matrix_norm(a, float("inf")), [square]),
    "cond": (L.cond, [square]),
    "cond 1": (lambda a: L.matrix_norm(a, 1) * L.matrix_norm(L.solve(a, torch.eye(3, dtype=a.dtype)), 1), [square]),
    "cholesky_solve": (lambda b, l: torch.cholesky_solve(b, l.tril()), [draw(3, 2), spd(3, 3)]),
    "cholesky_inverse": (lambda l: torch.cholesky_inverse(l.tril()), [spd(3, 3)]),
    "vecdot": (lambda a, b: L.vecdot(a, b, dim=1), [draw(2, 3, 2), draw(2, 3, 1)]),
}
out = {}
for name, (f, inputs) in CASES.items():
    inputs = [x.clone().requires_grad_() for x in inputs]
    y = f(*inputs)
    seed = torch.randn_like(y)
    out[name] = {"inputs": inputs, "value": y, "seed": seed, "gradients": torch.autograd.grad(y, inputs, seed)}
figures.save("linalg", out)
