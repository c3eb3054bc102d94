"""save_pretrained and from_pretrained of folders: whole, in shards, in another dtype, by Auto."""

import os
import tempfile

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
)

SHAPE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
words = torch.tensor([[5, 6, 7, 8, 9, 2]])

torch.manual_seed(0)
bert = BertForSequenceClassification(BertConfig(vocab_size=40, num_labels=3, **SHAPE)).eval()
with tempfile.TemporaryDirectory() as folder:
    bert.save_pretrained(folder)
    print(sorted(os.listdir(folder)))
    again = AutoModelForSequenceClassification.from_pretrained(folder)
    print(type(again).__name__, again.training)
    print(torch.allclose(bert(words).logits, again(words).logits))
    body = BertModel.from_pretrained(folder, add_pooling_layer=False)
    print(torch.allclose(body(words)[0], bert.bert(words)[0], atol=1e-6))
    torch.manual_seed(1)
    other, told = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=5, ignore_mismatched_sizes=True, output_loading_info=True
    )
    print(sorted(told), sorted(told["missing_keys"]), other.classifier.weight.shape)
    print(AutoConfig.from_pretrained(folder).num_labels, type(AutoModel.from_config(bert.config)))

torch.manual_seed(0)
config = LlamaConfig(vocab_size=40, num_key_value_heads=2, tie_word_embeddings=True, **SHAPE)
llama = LlamaForCausalLM(config).eval()
with tempfile.TemporaryDirectory() as folder:
    llama.save_pretrained(folder, max_shard_size="20KB")
    print(sorted(os.listdir(folder)))
    again = AutoModelForCausalLM.from_pretrained(folder)
    print(torch.allclose(llama(words).logits, again(words).logits))
    print(again.lm_head.weight is again.model.embed_tokens.weight)
    half = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    print(half.dtype, f"{(half(words).logits.float() - llama(words).logits).abs().max():.1f}")

llama.resize_token_embeddings(44, mean_resizing=False)
print(llama.get_input_embeddings().weight.shape, llama(words).logits.shape)
print(llama.num_parameters(), llama.get_memory_footprint())
llama.gradient_checkpointing_enable()
loss = llama.train()(words, labels=words).loss
loss.backward()
print(f"{loss:.4f} {llama.lm_head.weight.grad.norm():.4f}")
