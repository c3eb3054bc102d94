"""Adapters on a small GPT-2 and BERT: LoRA trained, merged, saved; other kinds."""

import os
import tempfile

import torch
from peft import (
    AdaLoraConfig,
    IA3Config,
    LoHaConfig,
    LoKrConfig,
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    TaskType,
    VeraConfig,
    get_peft_model,
    get_peft_model_state_dict,
)
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

words = torch.tensor([[5, 6, 7, 8, 9, 2], [11, 12, 13, 14, 15, 16]])


def gpt2():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=40, n_positions=32, n_embd=32, n_layer=2, n_head=4,
                   eos_token_id=2, bos_token_id=1)
    )  # fmt: skip


def trained(model, steps=3, **batch):
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(steps):
        torch.manual_seed(1)
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(f"{loss.item():.3f}")
    model.eval()
    return losses


config = LoraConfig(task_type=TaskType.CAUSAL_LM, r=4, lora_alpha=8, lora_dropout=0.1,
                    target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)  # fmt: skip
torch.manual_seed(0)
model = get_peft_model(gpt2(), config)
model.print_trainable_parameters()
print(trained(model, input_ids=words, labels=words))
print(len(get_peft_model_state_dict(model)))
out = model(input_ids=words).logits
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    print(sorted(name for name in os.listdir(folder) if name != "README.md"))
    again = PeftModel.from_pretrained(gpt2(), folder).eval()
    print(torch.allclose(again(input_ids=words).logits, out, atol=1e-5))
with model.disable_adapter():
    print(torch.allclose(model(input_ids=words).logits, gpt2().eval()(words).logits, atol=1e-5))
model.add_adapter("second", config)
model.set_adapter("second")
print(model.active_adapter, model.peft_config.keys())
model.set_adapter("default")
torch.manual_seed(0)
print(model.generate(input_ids=words, max_new_tokens=3, do_sample=False, pad_token_id=0).shape)
merged = model.merge_and_unload()
print(type(merged).__name__, torch.allclose(merged(words).logits, out, atol=1e-5))

for kind in (
    IA3Config(task_type="CAUSAL_LM", target_modules=["c_attn", "mlp.c_proj"],
              feedforward_modules=["mlp.c_proj"], fan_in_fan_out=True),
    PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4),
    PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4),
    LoraConfig(task_type="CAUSAL_LM", r=2, use_dora=True, target_modules=["c_attn"],
               fan_in_fan_out=True),
    AdaLoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"], total_step=10,
                  fan_in_fan_out=True),
):  # fmt: skip
    torch.manual_seed(0)
    model = get_peft_model(gpt2(), kind)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(type(kind).__name__, trainable, trained(model, input_ids=words, labels=words))

for kind in (
    LoHaConfig(r=2, target_modules=["query", "value"]),
    LoKrConfig(r=2, target_modules=["query", "value"]),
    VeraConfig(r=4, target_modules=["query", "value"]),
    LoraConfig(r=2, target_modules=["query"], modules_to_save=["classifier"],
               init_lora_weights="pissa"),
):  # fmt: skip
    torch.manual_seed(0)
    bert = BertForSequenceClassification(
        BertConfig(vocab_size=40, num_labels=3, hidden_size=32, num_hidden_layers=2,
                   num_attention_heads=4, intermediate_size=48)
    )  # fmt: skip
    model = get_peft_model(bert, kind)
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    losses = trained(model, input_ids=words, labels=torch.tensor([0, 2]))
    print(type(kind).__name__, trainable, losses)
