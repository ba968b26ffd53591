"""What factorisations say in integers (`info`, pivots), asked about natively beside them in compiled programs."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F

L = torch.linalg
GOOD = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
ZERO, SINGULAR = torch.zeros(3, 3), torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
MATRICES = [
    GOOD,
    ZERO,
    -GOOD,
    SINGULAR,
    torch.stack([GOOD, ZERO, -GOOD]),
    torch.stack([ZERO, GOOD, SINGULAR]),
    GOOD * 2,
]
I = torch.arange(1, 10).reshape(3, 3)


def _failed(a):
    return (L.inv_ex(a).info != 0)[..., None, None]


QUESTIONS = {
    "where": lambda a: torch.where(_failed(a), a, L.inv_ex(a).inverse), "other's": lambda a: torch.where(_failed(a), a, L.cholesky_ex(a).L),
    "all": lambda a: torch.where(_failed(a).all(), L.inv_ex(a).inverse, a), "largest": lambda a: a * (1 + L.cholesky_ex(a).info.max()),
    "cond": lambda a: torch.cond((L.cholesky_ex(a).info == 0).all(), lambda a: L.inv_ex(a).inverse, lambda a: a * 2, (a,)),
    "item": lambda a: a * (1 if L.inv_ex(a).info.sum().item() == 0 else 2), "branch": lambda a: a * 3 if L.inv_ex(a).info.any() else L.inv(a),
    "three": lambda a: torch.stack([L.inv_ex(a).info, L.cholesky_ex(a).info * 10, L.lu_factor_ex(a).info * 100]).sum(0),
    "quotient": lambda a: 7 // (L.inv_ex(a).info.long() + 1), "by zero": lambda a: 7 // L.inv_ex(a).info.long(), "remainder": lambda a: I % L.inv_ex(a).info.sum(),
    "refused": lambda a: L.inv(a) * (7 // (L.cholesky_ex(a).info.long() + 1)).sum(), "two refusals": lambda a: L.inv(a) + L.cholesky(a),
    "pivots": lambda a: (100 // L.lu_factor_ex(a).pivots).sum() * L.inv(a + 9 * torch.eye(3)), "rank": lambda a: torch.where((L.matrix_rank(a) == 3)[..., None, None], a, -a),
    "targets": lambda a: F.nll_loss(a.reshape(-1, 3), L.lu_factor_ex(a).pivots.reshape(-1).long() - 1) * L.inv_ex(a).inverse,
    "places": lambda a: F.embedding(L.inv_ex(a).info.reshape(-1).long(), I.float()) + (7 // (L.inv_ex(a).info.sum() + 1)),
    "gradient": lambda a: torch.func.grad(lambda a: L.inv(a).sum())(a) * (6 // (L.inv_ex(a).info.sum() + 1)),
    "chain": lambda a: L.inv(L.inv(a)) * (7 // (1 + L.inv_ex(L.inv(a)).info.sum())), "spectrum": lambda a: L.eigvalsh(a @ a.mT) * (8 // (1 + L.inv_ex(a).info.sum())),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_programs_ask_as_eager_functions_do(name):
    f = QUESTIONS[name]
    compiled = torch.compile(f)
    for a in MATRICES * 2:
        try:
            expected = f(a)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(a)
        else:
            torch.testing.assert_close(compiled(a), expected, equal_nan=True)
