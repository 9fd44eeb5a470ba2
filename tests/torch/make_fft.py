"""Fourier transforms, with gradients. Complex numbers are written as view_as_real() shows them."""
import torch

import figures

torch.manual_seed(1)
F = torch.fft


def real(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def cplx(f):
    return lambda x: f(torch.view_as_complex(x))


CASES = {
    "fft": (cplx(F.fft), real(3, 8, 2)),
    "fft 6": (cplx(F.fft), real(2, 6, 2)),
    "fft 1": (cplx(F.fft), real(2, 1, 2)),
    "fft 131": (cplx(F.fft), real(131, 2)),
    "fft n ortho": (cplx(lambda x: F.fft(x, n=5, norm="ortho")), real(2, 8, 2)),
    "fft pad dim": (cplx(lambda x: F.fft(x, n=7, dim=0, norm="forward")), real(4, 3, 2)),
    "ifft": (cplx(F.ifft), real(3, 8, 2)),
    "ifft forward": (cplx(lambda x: F.ifft(x, dim=0, norm="forward")), real(5, 3, 2)),
    "rfft": (F.rfft, real(2, 8)),
    "rfft odd": (lambda x: F.rfft(x, norm="ortho"), real(2, 5)),
    "rfft dim": (lambda x: F.rfft(x, n=6, dim=0), real(4, 3)),
    "irfft": (cplx(F.irfft), real(2, 5, 2)),
    "irfft odd": (cplx(lambda x: F.irfft(x, n=7, norm="ortho")), real(2, 4, 2)),
    "irfft 1": (cplx(lambda x: F.irfft(x, n=1)), real(2, 3, 2)),
    "hfft": (cplx(F.hfft), real(2, 5, 2)),
    "ihfft": (F.ihfft, real(2, 6)),
    "fft2": (cplx(F.fft2), real(2, 4, 3, 2)),
    "ifft2": (cplx(lambda x: F.ifft2(x, s=(3, 4))), real(2, 4, 3, 2)),
    "rfft2": (lambda x: F.rfft2(x, norm="ortho"), real(2, 4, 6)),
    "irfft2": (cplx(lambda x: F.irfft2(x, s=(4, 5))), real(2, 4, 3, 2)),
    "fftn": (cplx(F.fftn), real(2, 3, 4, 2)),
    "ifftn": (cplx(lambda x: F.ifftn(x, dim=(0, 2))), real(2, 3, 4, 2)),
    "rfftn": (lambda x: F.rfftn(x, s=(2, 5)), real(2, 3, 4)),
    "irfftn": (cplx(F.irfftn), real(2, 3, 3, 2)),
    "fftshift": (lambda x: F.fftshift(x), real(5, 4)),
    "ifftshift": (lambda x: F.ifftshift(x, dim=0), real(5, 4)),
    "stft": (lambda x: torch.stft(x, 8, window=torch.hann_window(8, dtype=torch.float64), return_complex=True),
             real(2, 20)),
    "stft hop": (lambda x: torch.stft(x, 8, hop_length=3, win_length=6, center=False, normalized=True, onesided=False,
                                      window=torch.hann_window(6, dtype=torch.float64), return_complex=True), real(20)),
    "istft": (cplx(lambda x: torch.istft(x, 8, window=torch.hann_window(8, dtype=torch.float64))), real(2, 5, 6, 2)),
    "istft length": (cplx(lambda x: torch.istft(x, 8, hop_length=3, length=17, normalized=True)), real(5, 6, 2)),
}
out = {"cases": {}, "fftfreq": {}}
for name, (f, x) in CASES.items():
    x = x.requires_grad_()
    y = f(x)
    y = torch.view_as_real(y.resolve_conj()) if y.is_complex() else y
    seed = torch.randn_like(y)
    (gradient,) = torch.autograd.grad(y, x, seed)
    out["cases"][name] = {"x": x, "value": y, "seed": seed, "gradient": gradient}
for n in (1, 2, 5, 8):
    out["fftfreq"][str(n)] = {"fftfreq": F.fftfreq(n, 0.5, dtype=torch.float64),
                              "rfftfreq": F.rfftfreq(n, 0.5, dtype=torch.float64)}
figures.save("fft", out)
