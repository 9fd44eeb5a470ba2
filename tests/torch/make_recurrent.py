"""Recurrent networks: outputs, states and gradients, with the parameters they were computed with."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import figures

torch.manual_seed(3)


def short(*shape):
    """Numbers of three decimals, which take little room."""
    return torch.round(torch.randn(*shape, dtype=torch.float64) * 1000) / 1000


def shorten(module):
    module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.round(p * 1000) / 1000)
    return module


def run(module, x, state, lengths=None, batch_first=False):
    x.requires_grad_()
    given = x if lengths is None else pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
    y, last = module(given, state)
    if lengths is not None:
        y, _ = pad_packed_sequence(y, batch_first)
    last = last if isinstance(last, tuple) else (last,)
    seeds = [short(*t.shape) for t in (y, *last)]
    names, parameters = zip(*module.named_parameters())
    gradients = torch.autograd.grad((y, *last), (x, *parameters), seeds)
    return {"state": dict(module.named_parameters()), "x": x, "given": list(state) if isinstance(state, tuple) else
            [state] if state is not None else [], "lengths": lengths or [], "output": y, "last": list(last),
            "seeds": seeds, "x_gradient": gradients[0], "gradients": dict(zip(names, gradients[1:]))}


T, B, I, H = 3, 3, 2, 3
cases = {
    "rnn_tanh": run(shorten(nn.RNN(I, H, 2, bidirectional=True)), short(T, B, I), short(4, B, H)),
    "rnn_relu": run(shorten(nn.RNN(I, H, nonlinearity="relu", bias=False)), short(T, B, I), None),
    "lstm": run(shorten(nn.LSTM(I, H, 2, bidirectional=True)), short(T, B, I), (short(4, B, H), short(4, B, H))),
    "lstm_proj": run(shorten(nn.LSTM(I, H, 2, proj_size=2)), short(T, B, I), (short(2, B, 2), short(2, B, H))),
    "lstm_unbatched": run(shorten(nn.LSTM(I, H)), short(T, I), (short(1, H), short(1, H))),
    "lstm_packed": run(shorten(nn.LSTM(I, H, 2, bidirectional=True)), short(T, B, I),
                       (short(4, B, H), short(4, B, H)), [2, 3, 1]),
    "gru": run(shorten(nn.GRU(I, H, 2, bidirectional=True, batch_first=True)), short(B, T, I), short(4, B, H)),
    "gru_packed": run(shorten(nn.GRU(I, H, batch_first=True)), short(B, T, I), None, [3, 1, 2], True),
}
cells = {}
for name, cell in {"rnn": nn.RNNCell(I, H), "lstm": nn.LSTMCell(I, H), "gru": nn.GRUCell(I, H)}.items():
    shorten(cell)
    x, h, c = short(B, I), short(B, H), short(B, H)
    y = cell(x, (h, c) if name == "lstm" else h)
    cells[name] = {"state": dict(cell.named_parameters()), "x": x, "h": h, "c": c,
                   "last": list(y) if name == "lstm" else [y]}
figures.save("recurrent", {"cases": cases, "cells": cells})
