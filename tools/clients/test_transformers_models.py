"""transformers' own tests of models (ModelTesterMixin of its source package), for small models of a few families.

The source package brings the tests that all models share, not those of each model, nor two mixins of them (generation
and export), for which empty classes stand.
"""

import os
import sys
import types
import unittest

import torch
import transformers as hf

sys.path.insert(0, os.environ["CLIENT_SOURCE"])
for path, name in (("exporters.test_export", "ExportTesterMixin"), ("generation.test_utils", "GenerationTesterMixin")):
    package = types.ModuleType("tests." + path.partition(".")[0])
    package.__path__ = []
    sys.modules.setdefault(package.__name__, package)
    module = types.ModuleType("tests." + path)
    setattr(module, name, type(name, (), {}))
    sys.modules[module.__name__] = module

from tests.test_modeling_common import ModelTesterMixin, ids_tensor, random_attention_mask  # noqa: E402

SIZES = {"vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
USUAL = {**SIZES, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}


class Tester:
    """A small configuration, and inputs for it."""

    def __init__(self, parent, config):
        self.parent, self.make_config = parent, config
        self.batch_size, self.seq_length, self.hidden_size = 3, 7, 32
        self.num_hidden_layers, self.num_attention_heads, self.is_training = 2, 4, True
        self.encoder_seq_length = self.key_length = self.seq_length

    def get_config(self):
        return self.make_config()

    def prepare_config_and_inputs_for_common(self):
        shape = [self.batch_size, self.seq_length]
        return self.get_config(), {"input_ids": ids_tensor(shape, 99), "attention_mask": random_attention_mask(shape)}


class Shared(ModelTesterMixin):
    """What the families share: no checkpoints are fetched, nothing runs on several devices."""

    make_config = None
    test_torch_exportable = False
    test_generation_tester_mixin_inheritance = None  # about the mixin that is not there

    def setUp(self):
        torch.manual_seed(0)
        self.model_tester = Tester(self, type(self).make_config)
        self.config_tester = None


class BertTest(Shared, unittest.TestCase):
    all_model_classes = (
        hf.BertModel,
        hf.BertForMaskedLM,
        hf.BertForSequenceClassification,
        hf.BertForTokenClassification,
    )
    make_config = staticmethod(lambda: hf.BertConfig(max_position_embeddings=64, **USUAL))


class GPT2Test(Shared, unittest.TestCase):
    all_model_classes = (hf.GPT2Model, hf.GPT2LMHeadModel)
    make_config = staticmethod(lambda: hf.GPT2Config(n_positions=64, n_embd=32, n_layer=2, n_head=4, **SIZES))


class LlamaTest(Shared, unittest.TestCase):
    all_model_classes = (hf.LlamaModel, hf.LlamaForCausalLM)
    make_config = staticmethod(lambda: hf.LlamaConfig(max_position_embeddings=64, num_key_value_heads=2, **USUAL))
