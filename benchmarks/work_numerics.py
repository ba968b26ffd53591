"""Kinds of work for `kinds.py`: numerics, images, numbers, single calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from work import KINDS, Make, kind, training

# -- numerics --------------------------------------------------------------------------------------------------------


def gaussian_process(points: int, dtype: str) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        d = getattr(T, dtype)
        x, y = T.linspace(0, 1, points, dtype=d).unsqueeze(1), T.randn(points, dtype=d)
        length, scale, noise = (T.zeros((), dtype=d, requires_grad=True) for _ in range(3))

        def loss() -> Any:
            distance = (x - x.T) ** 2
            k = scale.exp() * T.exp(-0.5 * distance / length.exp() ** 2) + (noise.exp() + 1e-3) * T.eye(points, dtype=d)
            low = T.linalg.cholesky(k)
            alpha = T.cholesky_solve(y.unsqueeze(1), low)
            solved = T.linalg.solve_triangular(low, y.unsqueeze(1), upper=False)
            fit = 0.5 * (y @ alpha.squeeze(1)) + 0.0 * (solved**2).sum()
            return fit + low.diagonal().log().sum() + 0.5 * points * math.log(2 * math.pi)

        return training(T, loss, [length, scale, noise])

    return make


for _points in (32, 100, 300):
    KINDS[f"gaussian process {_points}"] = gaussian_process(_points, "float32")
KINDS["gaussian process 200 double"] = gaussian_process(200, "float64")


@kind("cholesky 100 training")
def _(T: Any) -> Callable[[], Any]:
    a = T.randn(100, 100)
    a = (a @ a.T + 100 * T.eye(100)).requires_grad_()
    return training(T, lambda: T.linalg.cholesky(a).diagonal().log().sum(), [a])


@kind("solve_triangular 100 training")
def _(T: Any) -> Callable[[], Any]:
    a = (T.randn(100, 100).tril() + 20 * T.eye(100)).requires_grad_()
    b = T.randn(100, 8, requires_grad=True)
    return training(T, lambda: T.linalg.solve_triangular(a, b, upper=False).sum(), [a, b])


@kind("logdet 100 training")
def _(T: Any) -> Callable[[], Any]:
    a = T.randn(100, 100)
    a = (a @ a.T + 100 * T.eye(100)).requires_grad_()
    return training(T, lambda: T.logdet(a), [a])


@kind("multivariate normal training")
def _(T: Any) -> Callable[[], Any]:
    a = T.randn(16, 16)
    mean, cov = T.zeros(16, requires_grad=True), (a @ a.T + 16 * T.eye(16)).requires_grad_()
    x = T.randn(64, 16)
    normal = T.distributions.MultivariateNormal
    return training(T, lambda: -normal(mean, cov).log_prob(x).mean(), [mean, cov])


def fft_convolution(batch: int, channels: int, length: int) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        x, k = T.randn(batch, channels, length, requires_grad=True), T.randn(channels, length, requires_grad=True)
        d = T.randn(channels, 1, requires_grad=True)

        def loss() -> Any:
            n = 2 * length
            made = T.fft.irfft(T.fft.rfft(x, n=n) * T.fft.rfft(k, n=n), n=n)[..., :length]
            return T.nn.functional.gelu(made + x * d).sum()

        return training(T, loss, [x, k, d])

    return make


KINDS["fft convolution 8x32x512"] = fft_convolution(8, 32, 512)
KINDS["fft convolution 2x8x4096"] = fft_convolution(2, 8, 4096)
KINDS["fft convolution 4x16x300"] = fft_convolution(4, 16, 300)


@kind("fourier layer 2d")
def _(T: Any) -> Callable[[], Any]:
    x = T.randn(4, 16, 32, 32, requires_grad=True)
    w = (T.randn(16, 16, 8, 8, 2) * 0.1).requires_grad_()

    def loss() -> Any:
        f = T.fft.rfft2(x)
        out = T.zeros(4, 16, 32, 17, dtype=T.complex64)
        out[:, :, :8, :8] = T.einsum("bixy,ioxy->boxy", f[:, :, :8, :8], T.view_as_complex(w))
        return (T.fft.irfft2(out, s=(32, 32)) ** 2).mean()

    return training(T, loss, [x, w])


def lbfgs(search: str | None, size: int) -> Make:
    def make(T: Any) -> Callable[[], Any]:
        x = T.randn(64, 8)
        y = T.sin(x.sum(1, keepdim=True))

        def run() -> Any:
            T.manual_seed(0)
            net = T.nn.Sequential(T.nn.Linear(8, size), T.nn.Tanh(), T.nn.Linear(size, 1))
            optimizer = T.optim.LBFGS(net.parameters(), max_iter=10, line_search_fn=search)

            def closure() -> Any:
                optimizer.zero_grad()
                loss = ((net(x) - y) ** 2).mean()
                loss.backward()
                return loss

            for _ in range(2):
                optimizer.step(closure)

        return run

    return make


KINDS |= {
    "lbfgs": lbfgs(None, 16),
    "lbfgs strong_wolfe": lbfgs("strong_wolfe", 16),
    "lbfgs wide": lbfgs("strong_wolfe", 256),
}


@kind("lbfgs rosenbrock")
def _(T: Any) -> Callable[[], Any]:
    def run() -> Any:
        p = T.tensor([-1.5, 2.0], requires_grad=True)
        optimizer = T.optim.LBFGS([p], max_iter=20, line_search_fn="strong_wolfe")

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
            loss.backward()
            return loss

        optimizer.step(closure)

    return run


# -- images ----------------------------------------------------------------------------------------------------------


def sampled(training_too: bool, mode: str = "bilinear", padding: str = "zeros") -> Make:
    def make(T: Any) -> Callable[[], Any]:
        x = T.randn(4, 8, 64, 64, requires_grad=training_too)
        theta = T.tensor([[0.9, 0.1, 0.05], [-0.1, 0.8, 0.0]]).repeat(4, 1, 1).requires_grad_(training_too)

        def call() -> Any:
            grid = T.nn.functional.affine_grid(theta, (4, 8, 64, 64), align_corners=False)
            return T.nn.functional.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)

        return training(T, lambda: call().sum(), [x, theta]) if training_too else call

    return make


KINDS |= {
    "grid_sample": sampled(False),
    "grid_sample border": sampled(False, "bilinear", "border"),
    "grid_sample bicubic": sampled(False, "bicubic"),
    "grid_sample nearest": sampled(False, "nearest"),
    "grid_sample training": sampled(True),
    "grid_sample bicubic training": sampled(True, "bicubic"),
}


def resized(mode: str, size: int, training_too: bool, dtype: str = "float32") -> Make:
    def make(T: Any) -> Callable[[], Any]:
        if dtype == "uint8":
            x = T.randint(0, 256, (4, 3, 128, 128), dtype=T.uint8)
        else:
            x = T.randn(4, 3, 128, 128, requires_grad=training_too)

        def call() -> Any:
            return T.nn.functional.interpolate(x, size=(size, size), mode=mode, antialias=True, align_corners=False)

        return training(T, lambda: call().sum(), [x]) if training_too else call

    return make


KINDS |= {
    "antialias bilinear down": resized("bilinear", 56, False),
    "antialias bilinear up": resized("bilinear", 224, False),
    "antialias bicubic down": resized("bicubic", 56, False),
    "antialias bilinear training": resized("bilinear", 56, True),
    "antialias bilinear uint8": resized("bilinear", 56, False, "uint8"),
}


# -- numbers ---------------------------------------------------------------------------------------------------------


@kind("chain of 0-d")
def _(T: Any) -> Callable[[], Any]:
    x = T.tensor(0.7)

    def run() -> Any:
        y = x
        for _ in range(30):
            y = (y * 1.01 + 0.1).sin() - y / 3
        return y

    return run


@kind("chain of 0-d training")
def _(T: Any) -> Callable[[], Any]:
    x = T.tensor(0.7, requires_grad=True)

    def loss() -> Any:
        y = x
        for _ in range(30):
            y = (y * 1.01 + 0.1).sin() - y / 3
        return y

    return training(T, loss, [x])


@kind("newton on 0-d")
def _(T: Any) -> Callable[[], Any]:
    def run() -> Any:
        x = T.tensor(2.0)
        for _ in range(20):
            x = x - (x**2 - 3) / (2 * x)
            if abs(x * x - 3).item() < 0:
                break
        return x

    return run


def single(text: str, setup: str, training_too: bool = False) -> Make:
    """One call, written as text over names that `setup` binds."""

    def make(T: Any) -> Callable[[], Any]:
        scope: dict[str, Any] = {"T": T, "F": T.nn.functional}
        exec(setup, scope)
        call = eval(f"lambda: {text}", scope)
        return training(T, lambda: call().sum(), [scope["x"]]) if training_too else call

    return make


_CALLS = {
    "lgamma": "T.lgamma(x)",
    "digamma": "T.digamma(x)",
    "gammainc": "T.special.gammainc(x, y)",
    "gammaincc": "T.special.gammaincc(x, y)",
    "polygamma": "T.special.polygamma(1, x)",
    "erfinv": "T.erfinv(y)",
    "zeta": "T.special.zeta(x + 1, y)",
    "trapezoid": "T.trapezoid(x)",
    "trapezoid x": "T.trapezoid(x, y)",
    "cumulative_trapezoid": "T.cumulative_trapezoid(x)",
    "diff": "T.diff(x)",
    "diff 0": "T.diff(x, dim=0)",
    "diff n=2": "T.diff(x, n=2)",
    "renorm": "T.renorm(x, 2, 0, 1.0)",
    "renorm 1": "T.renorm(x, 1, 1, 1.0)",
}
for _name, _text in _CALLS.items():
    KINDS[_name] = single(_text, "x, y = T.rand(256, 256) * 5 + 0.1, T.rand(256, 256)")
    KINDS[f"{_name} small"] = single(_text, "x, y = T.rand(4, 16) * 5 + 0.1, T.rand(4, 16)")
for _name in ("lgamma", "trapezoid", "diff", "renorm"):
    KINDS[f"{_name} training"] = single(_CALLS[_name], "x = (T.rand(256, 256) + 0.5).requires_grad_()", True)
KINDS |= {
    "combinations": single("T.combinations(x, 2)", "x = T.rand(100)"),
    "combinations 3": single("T.combinations(x, 3)", "x = T.rand(30)"),
    "combinations small": single("T.combinations(x, 2)", "x = T.arange(5)"),
    "combinations repeated": single("T.combinations(x, 2, with_replacement=True)", "x = T.rand(100)"),
    "cartesian_prod": single("T.cartesian_prod(x, x)", "x = T.rand(100)"),
    "embedding max_norm": single("F.embedding(i, x, max_norm=1.0)", "x, i = T.rand(1000, 64), T.arange(0, 1000, 7)"),
}
