"""einsum and the products of linear algebra, with gradients."""
import torch

import figures

torch.manual_seed(1)
EINSUMS = [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]), ("ii->", [(4, 4)]), ("ii->i", [(4, 4)]),
    ("ij->ji", [(2, 3)]), ("ij", [(2, 3)]), ("ba", [(2, 3)]), ("i,i->", [(5,), (5,)]), ("i,j->ij", [(3,), (4,)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]), ("ij,ij->", [(2, 3), (2, 3)]), ("bi,bi->b", [(3, 4), (3, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (3, 4, 2)]), ("i...->...", [(3, 2, 4)]), ("...i,i", [(2, 3, 4), (4,)]),
    ("bn,anm,bm->ba", [(2, 3), (4, 3, 5), (2, 5)]), ("ij,jk,kl,lm->im", [(2, 5), (5, 3), (3, 4), (4, 2)]),
    ("ab,bc", [(2, 3), (3, 4)]), ("i j , j k -> i k", [(2, 3), (3, 2)]), ("ij,jk->k", [(2, 3), (3, 4)]),
    ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("iji->j", [(3, 2, 3)]), ("ij,kj->ik", [(1, 4), (3, 4)]),
    ("bij,bjk->bik", [(1, 2, 3), (4, 3, 2)]), ("ijk,ilk->jl", [(2, 3, 4), (2, 5, 4)]), ("i,i,i->i", [(4,), (4,), (4,)]),
    ("ij,jk->ik", [(3, 1), (4, 5)]), ("...->", [(2, 3)]), ("a,b,c,d->dcba", [(2,), (3,), (2,), (2,)]),
]


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def case(y, inputs):
    seed = torch.randn_like(y)
    gradients = torch.autograd.grad(y, inputs, seed)
    return {"inputs": inputs, "value": y, "seed": seed, "gradients": gradients}


out = {"einsum": [], "products": {}}
for equation, shapes in EINSUMS:
    inputs = [draw(*s) for s in shapes]
    out["einsum"].append({"equation": equation, **case(torch.einsum(equation, *inputs), inputs)})

PRODUCTS = {
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), [(2, 3, 4), (3, 4, 5)]),
    "tensordot dims": (lambda a, b: torch.tensordot(a, b, ([0, -1], [1, 0])), [(2, 3, 4), (4, 2, 3)]),
    "tensordot 0": (lambda a, b: torch.tensordot(a, b, 0), [(2, 3), (2,)]),
    "mm": (torch.mm, [(2, 3), (3, 4)]),
    "bmm": (torch.bmm, [(2, 2, 3), (2, 3, 2)]),
    "mv": (torch.mv, [(2, 3), (3,)]),
    "dot": (torch.dot, [(5,), (5,)]),
    "outer": (torch.outer, [(2,), (3,)]),
    "inner": (torch.inner, [(2, 3), (4, 3)]),
    "addmm": (lambda i, a, b: torch.addmm(i, a, b, beta=0.5, alpha=2), [(4,), (2, 3), (3, 4)]),
    "addmv": (lambda i, a, x: torch.addmv(i, a, x, beta=2, alpha=-1), [(2,), (2, 3), (3,)]),
    "addr": (lambda i, a, b: torch.addr(i, a, b, beta=3, alpha=0.5), [(2, 3), (2,), (3,)]),
    "baddbmm": (lambda i, a, b: torch.baddbmm(i, a, b, beta=0.5, alpha=3), [(2, 2, 2), (2, 2, 3), (2, 3, 2)]),
    "addbmm": (lambda i, a, b: torch.addbmm(i, a, b, beta=2, alpha=0.5), [(2, 4), (3, 2, 3), (3, 3, 4)]),
    "kron": (torch.kron, [(2, 3), (2, 2)]),
    "kron ranks": (torch.kron, [(2,), (2, 1, 2)]),
    "trace": (torch.trace, [(3, 4)]),
    "matrix_power": (lambda a: torch.matrix_power(a, 5), [(2, 3, 3)]),
    "matrix_power inverse": (lambda a: torch.matrix_power(a, -3), [(3, 3)]),
    "multi_dot": (lambda a, b, c, d: torch.linalg.multi_dot([a, b, c, d]), [(4,), (4, 2), (2, 5), (5,)]),
    "chain_matmul": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), [(2, 6), (6, 2), (2, 5)]),
    "cross": (lambda a, b: torch.cross(a, b, dim=1), [(2, 3), (2, 3)]),
    "cross broadcast": (lambda a, b: torch.linalg.cross(a, b), [(2, 1, 3), (1, 4, 3)]),
}
for name, (f, shapes) in PRODUCTS.items():
    inputs = [draw(*s) for s in shapes]
    out["products"][name] = case(f(*inputs), inputs)

integers = {}
for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
    low = 0 if dtype == torch.uint8 else -100
    a, b = torch.randint(low, 100, (2, 3, 7), dtype=dtype), torch.randint(low, 100, (7, 5), dtype=dtype)
    if dtype == torch.int64:
        a = a * 1234567890123
        b = b * 987654321
    integers[figures.NAMES[dtype]] = {"a": [str(v) for v in a.flatten().tolist()],
                                      "b": [str(v) for v in b.flatten().tolist()],
                                      "value": [str(v) for v in torch.matmul(a, b).flatten().tolist()]}
out["integers"] = integers
figures.save("einsum", out)
