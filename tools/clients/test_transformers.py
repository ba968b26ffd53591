"""transformers: tiny GPT-2, BERT and others with random weights: loss, backward, three steps, text, saved and loaded."""

import pytest
import torch
import transformers as hf
from torch import nn

SMALL = {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, **SMALL}
KINDS = ["eager", "sdpa"]


def gpt2(kind="sdpa"):
    torch.manual_seed(0)
    config = hf.GPT2Config(n_positions=64, n_embd=32, n_layer=2, n_head=4, attn_implementation=kind, **SMALL)
    return hf.GPT2LMHeadModel(config)


def bert(kind="sdpa"):
    return hf.BertConfig(max_position_embeddings=64, num_labels=3, attn_implementation=kind, **SIZES)


def batch():
    torch.manual_seed(1)
    ids = torch.randint(3, 100, (2, 12))
    return {"input_ids": ids, "attention_mask": (torch.arange(12) < torch.tensor([[12], [8]])).long()}


def three_steps(record_property, model, **inputs):
    """Three steps of an optimizer on one batch."""
    torch.manual_seed(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, norms = [], []
    for _ in range(3):
        out = model(**inputs)
        out.loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.loss.item())
    record_property("losses", losses)
    record_property("norms", norms)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", KINDS)
def test_gpt2_learns(kind, record_property):
    inputs = batch()
    three_steps(record_property, gpt2(kind), labels=inputs["input_ids"], **inputs)


@pytest.mark.parametrize(
    "how",
    [
        {"do_sample": False}, {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.7},
        {"num_beams": 3, "early_stopping": True, "no_repeat_ngram_size": 2}, {"do_sample": False, "use_cache": False},
        {"num_beams": 4, "num_beam_groups": 1, "num_return_sequences": 2}, {"do_sample": True, "repetition_penalty": 1.3},
        {"do_sample": False, "cache_implementation": "static"},
    ],
    ids=lambda how: "-".join(how),
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_gpt2_generates(how, kind, record_property):
    start = batch()["input_ids"][:, :5]
    torch.manual_seed(3)
    made = gpt2(kind).eval().generate(start, attention_mask=torch.ones_like(start), max_new_tokens=8, **how)
    record_property("made", made.tolist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["SequenceClassification", "MaskedLM", "TokenClassification", "QuestionAnswering"])
def test_bert_learns(kind, head, record_property):
    torch.manual_seed(0)
    model, inputs = getattr(hf, f"BertFor{head}")(bert(kind)), batch()
    ids = inputs["input_ids"]
    labels = {
        "SequenceClassification": {"labels": torch.tensor([0, 2])}, "MaskedLM": {"labels": ids},
        "TokenClassification": {"labels": ids % 3},
        "QuestionAnswering": {"start_positions": torch.tensor([1, 2]), "end_positions": torch.tensor([3, 4])},
    }[head]  # fmt: skip
    if head == "QuestionAnswering":
        model = hf.BertForQuestionAnswering(
            hf.BertConfig(max_position_embeddings=64, attn_implementation=kind, **SIZES)
        )
    three_steps(record_property, model, **labels, **inputs)


def test_bert_details(record_property):
    torch.manual_seed(0)
    model = hf.BertModel(bert("eager")).eval()
    out = model(**batch(), output_hidden_states=True, output_attentions=True)
    record_property("pooled", out.pooler_output.flatten().tolist())
    record_property("hidden", [h.std().item() for h in out.hidden_states] + [a.std().item() for a in out.attentions])
    model.train().gradient_checkpointing_enable()
    model(**batch()).pooler_output.sum().backward()
    assert model.embeddings.word_embeddings.weight.grad is not None


@pytest.mark.parametrize("safe", [True, False])
def test_saved_and_loaded(tmp_path, safe, record_property):
    model, ids = gpt2().eval(), batch()["input_ids"]
    model.save_pretrained(tmp_path, **({} if safe else {"max_shard_size": "20KB"}))
    again = hf.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    half = hf.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, again(ids).logits)
        assert half(ids).logits.dtype == torch.bfloat16
        assert torch.allclose(half(ids).logits.float(), model(ids).logits, atol=0.05)
    record_property("files", sorted(p.name for p in tmp_path.iterdir()))


def test_cache_gives_the_same_logits():
    model, ids = gpt2().eval(), batch()["input_ids"]
    with torch.no_grad():
        first = model(ids[:, :8], use_cache=True)
        rest = model(ids[:, 8:], past_key_values=first.past_key_values)
        assert torch.allclose(rest.logits, model(ids).logits[:, 8:], atol=1e-5)


def test_resized_embeddings_and_tied_weights(record_property):
    model = gpt2()
    model.resize_token_embeddings(110, mean_resizing=False)
    assert model.lm_head.weight is model.transformer.wte.weight and model.lm_head.weight.shape == (110, 32)
    record_property("count", model.num_parameters())


OTHERS = {
    "Llama": {"num_key_value_heads": 2}, "Mistral": {"num_key_value_heads": 2}, "Qwen2": {"num_key_value_heads": 2},
    "Gemma": {"num_key_value_heads": 1, "head_dim": 8}, "GPTNeoX": {}, "Phi": {}, "OPT": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "Mixtral": {"num_key_value_heads": 2, "num_local_experts": 2}, "Mamba": {"state_size": 4}, "Falcon": {}, "Bloom": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_language_models(name, record_property):
    torch.manual_seed(0)
    config = getattr(hf, name + "Config")(**SIZES, **OTHERS[name])
    model, inputs = hf.AutoModelForCausalLM.from_config(config), batch()
    three_steps(record_property, model, labels=inputs["input_ids"], **inputs)
    made = model.eval().generate(inputs["input_ids"][:, :4], max_new_tokens=5, do_sample=False)
    record_property("made", made.tolist())


def test_t5(record_property):
    torch.manual_seed(0)
    config = hf.T5Config(
        vocab_size=100,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    model, inputs = hf.T5ForConditionalGeneration(config), batch()
    three_steps(record_property, model, labels=inputs["input_ids"][:, :6].contiguous(), **inputs)
    record_property("made", model.eval().generate(**inputs, max_new_tokens=5, num_beams=2).tolist())


def test_vision_transformer(record_property):
    torch.manual_seed(0)
    config = hf.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4
    )
    config.num_labels = 2
    three_steps(
        record_property,
        hf.ViTForImageClassification(config),
        pixel_values=torch.randn(2, 3, 16, 16),
        labels=torch.tensor([0, 1]),
    )
