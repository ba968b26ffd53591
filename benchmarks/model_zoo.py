"""Models of timm and transformers, compiled whole beside eager runs: are results the same, and how much faster?

    flambeau run benchmarks/model_zoo.py timm [NAME ...]
    flambeau run benchmarks/model_zoo.py transformers [NAME ...]
    python benchmarks/model_zoo.py transformers bert       # the same on PyTorch

Needs the library (`pip install --no-deps timm` or `transformers`, and what it imports). Weights are random, networks of transformers
small. For each model: the largest difference of a result from the eager one, of gradients relative to their largest, and processor
times on one thread, eager and compiled, in ms; a model that cannot be made or recorded whole says why.
"""

import contextlib
import sys
import time
import warnings

import torch
from tqdm import tqdm

TIMM = """
resnet18 resnext50_32x4d densenet121 vgg11 mobilenetv2_035 mobilenetv3_small_050 efficientnet_b0 regnetx_002 convnext_atto
convnextv2_atto vit_tiny_patch16_224 swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 mixer_s32_224 gmlp_ti16_224 poolformer_s12
coat_lite_tiny levit_128s crossvit_tiny_240 cait_xxs24_224 xcit_nano_12_p16_224 twins_pcpvt_small pit_ti_224 mobilevit_xxs
edgenext_xx_small hrnet_w18_small ghostnet_050 mnasnet_small tinynet_e lcnet_035 repvgg_a0 dla34 eca_nfnet_l0 res2net50_26w_4s
skresnet18 inception_v3 maxvit_rmlp_pico_rw_256 coatnet_nano_rw_224 davit_tiny focalnet_tiny_srf fastvit_t8 efficientformer_l1
efficientvit_b0 repvit_m0_9 tiny_vit_5m_224 nest_tiny sequencer2d_s volo_d1_224 eva02_tiny_patch14_224 rexnet_100 botnet26t_256
halonet26t mambaout_femto
"""
TRANSFORMERS = """
bert gpt2 llama roberta distilbert albert electra deberta deberta-v2 t5 mistral qwen2 qwen3 gemma gemma2 phi bloom gpt_neo gpt_neox
gptj falcon mpt codegen xlm-roberta mpnet funnel big_bird fnet convbert squeezebert mobilebert xlnet vit deit beit resnet
clip_text_model clip_vision_model dinov2 segformer mixtral olmo stablelm starcoder2 persimmon granite cohere mamba rwkv prophetnet
modernbert nystromformer yoso roformer rembert ernie esm layoutlm splinter megatron-bert gpt_bigcode git ctrl imagegpt mobilenet_v2
regnet poolformer focalnet bit cvt pvt yolos
"""
# Whatever a configuration calls them: sizes that make a network small.
SMALL = {
    8: ("d_kv", "head_dim", "patch_size"), 64: ("max_position_embeddings", "n_positions"), 99: ("vocab_size",),
    32: ("hidden_size", "n_embd", "d_model", "dim", "embedding_size", "image_size"),
    2: ("num_hidden_layers", "n_layer", "encoder_layers", "decoder_layers", "num_layers", "n_layers", "num_key_value_heads",
        "num_local_experts"),
    4: ("num_attention_heads", "n_head", "encoder_attention_heads", "decoder_attention_heads", "num_heads", "n_heads", "rotary_dim"),
    48: ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "ffn_dim", "hidden_dim", "dff"),
}  # fmt: skip


def from_timm(name):
    import timm

    model = timm.create_model(name, num_classes=10)
    return model, {"x": torch.randn(1, *model.default_cfg["input_size"])}


def from_transformers(name):
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(name)
    for size, names in SMALL.items():
        for key in names:
            if type(getattr(config, key, None)) is int or (key == "head_dim" and hasattr(config, key)):
                with contextlib.suppress(AttributeError, NotImplementedError):  # computed from others
                    setattr(config, key, size)
    for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
        setattr(config, key, 1)
    try:
        model = AutoModel.from_config(config, attn_implementation="sdpa")
    except ValueError:
        model = AutoModel.from_config(config, attn_implementation="eager")
    if model.main_input_name == "pixel_values":
        side = config.image_size if isinstance(getattr(config, "image_size", None), int) else 64
        return model, {"pixel_values": torch.randn(2, 3, side, side)}
    given = {"input_ids": torch.randint(2, 90, (2, 16))}
    if getattr(config, "is_encoder_decoder", False):
        given["decoder_input_ids"] = torch.randint(2, 90, (2, 8))
    return model, {**given, "use_cache": False} if hasattr(config, "use_cache") else given


def tensors(made):
    if isinstance(made, torch.Tensor):
        return [made] if made.dtype.is_floating_point else []
    parts = made.values() if isinstance(made, dict) else made if isinstance(made, (list, tuple)) else ()
    return [t for part in parts for t in tensors(part)]


def milliseconds(call, times):
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best * 1e3


def apart(some, others, relative):
    scale = [float(a.abs().max()) + 1e-6 if relative else 1.0 for a in some]
    return max([float((a - b).abs().max()) / s for a, b, s in zip(some, others, scale) if a.numel()], default=0.0)


def compared(model, given):
    """(difference of results, of gradients, eager and compiled times of evaluation, of a training step)."""
    run = lambda m: tensors(m(**given)) or tensors(dict(m(**given)))
    compiled = torch.compile(model.eval(), fullgraph=True)
    with torch.no_grad():
        results = max(apart(run(model), run(compiled), False) for _ in range(2))
        evaluation = [milliseconds(lambda m=m: run(m), 8) for m in (model, compiled)]
    model.train()

    def step(m):
        torch.manual_seed(1)
        sum([t.square().mean() for t in run(m) if t.requires_grad]).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        return gradients

    wanted = step(model)
    gradients = max(apart(wanted, step(compiled), True) for _ in range(2))
    return results, gradients, evaluation, [milliseconds(lambda m=m: step(m), 4) for m in (model, compiled)]


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    make, names = {"timm": (from_timm, TIMM), "transformers": (from_transformers, TRANSFORMERS)}[sys.argv[1]]
    for name in tqdm(sys.argv[2:] or names.split(), disable=None):
        torch.manual_seed(0)
        try:
            results, gradients, (a, b), (c, d) = compared(*make(name))
        except Exception as problem:  # not to be recorded whole, or not with sizes so small
            print(f"{name:28} {type(problem).__name__}: {str(problem).splitlines()[0]}", flush=True)
            continue
        wrong = "" if results < 1e-4 and gradients < 1e-2 else "  DIFFERS"
        print(
            f"{name:28} {results:.0e} {gradients:.0e}  eval {a:.1f} / {b:.1f}  training {c:.1f} / {d:.1f}{wrong}",
            flush=True,
        )


main()
