"""Multi-head attention and transformer layers: outputs and gradients, with the parameters they were computed with."""
import torch
from torch import nn

import figures

torch.manual_seed(4)


def short(*shape):
    """Numbers of three decimals, which take little room."""
    return torch.round(torch.randn(*shape, dtype=torch.float64) * 1000) / 1000


def shorten(module):
    module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.round((p + 0.1 * torch.randn_like(p)) * 1000) / 1000)
    return module


def result(module, inputs, outputs):
    outputs = [y for y in outputs if y is not None]
    seeds = [short(*y.shape) for y in outputs]
    names, parameters = zip(*module.named_parameters())
    gradients = torch.autograd.grad(outputs, (*inputs, *parameters), seeds)
    return {"state": dict(module.named_parameters()), "inputs": list(inputs), "outputs": outputs, "seeds": seeds,
            "input_gradients": list(gradients[:len(inputs)]), "gradients": dict(zip(names, gradients[len(inputs):]))}


L, S, N, E = 3, 4, 2, 4
hidden = torch.tensor([[False, False, True, False], [False, False, False, True]])
causal = torch.triu(torch.ones(L, L, dtype=torch.bool), 1)
floating = short(N * 2, L, S)
out = {"hidden": hidden, "floating": floating, "cases": {}}


def leaves(*tensors):
    return [t.requires_grad_() for t in tensors]


mha = shorten(nn.MultiheadAttention(E, 2))
(x,) = leaves(short(L, N, E))
out["cases"]["self"] = result(mha, [x], mha(x, x, x, need_weights=False))
out["cases"]["self_causal"] = result(mha, [x], mha(x, x, x, attn_mask=causal, need_weights=False))
out["cases"]["self_weights"] = result(mha, [x], mha(x, x, x, attn_mask=causal))
cross = shorten(nn.MultiheadAttention(E, 2, kdim=3, vdim=5, batch_first=True))
q, k, v = leaves(short(N, L, E), short(N, S, 3), short(N, S, 5))
out["cases"]["cross"] = result(cross, [q, k, v], cross(q, k, v, key_padding_mask=hidden, need_weights=False))
out["cases"]["cross_weights"] = result(
    cross, [q, k, v], cross(q, k, v, key_padding_mask=hidden, attn_mask=floating, average_attn_weights=False))
more = shorten(nn.MultiheadAttention(E, 2, bias=False, add_bias_kv=True, add_zero_attn=True))
q, k = leaves(short(L, E), short(S, E))
out["cases"]["more_unbatched"] = result(more, [q, k], more(q, k, k, key_padding_mask=hidden[0]))

for name, options in {"post": {}, "pre": {"norm_first": True, "activation": "gelu", "batch_first": True}}.items():
    layer = shorten(nn.TransformerEncoderLayer(E, 2, 5, 0.0, **options))
    (x,) = leaves(short(N, L, E))
    mask = torch.triu(torch.ones(x.shape[1 if options else 0], x.shape[1 if options else 0], dtype=torch.bool), 1)
    out["cases"]["encoder_layer_" + name] = result(layer, [x], [layer(x, src_mask=mask)])
    layer = shorten(nn.TransformerDecoderLayer(E, 2, 5, 0.0, **options))
    x, memory = leaves(short(N, L, E), short(N, S, E) if options else short(S, L, E))
    out["cases"]["decoder_layer_" + name] = result(layer, [x, memory], [layer(x, memory, tgt_mask=mask)])
both = shorten(nn.Transformer(E, 2, 2, 1, 5, 0.0, batch_first=True))
src, tgt = leaves(short(N, S, E), short(N, L, E))
out["cases"]["transformer"] = result(
    both, [src, tgt], [both(src, tgt, tgt_mask=nn.Transformer.generate_square_subsequent_mask(L).double(),
                            src_key_padding_mask=hidden, memory_key_padding_mask=hidden)])
figures.save("transformer", out)
