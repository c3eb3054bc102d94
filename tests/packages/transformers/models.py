"""Six models from a config: forward, backward, steps of AdamW."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

WORDS = torch.tensor([[5, 6, 7, 8, 9, 2], [11, 12, 13, 2, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
SHAPE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)


def bert():
    model = BertForSequenceClassification(BertConfig(vocab_size=40, num_labels=3, **SHAPE))
    return model, dict(input_ids=WORDS, attention_mask=MASK, labels=torch.tensor([0, 2]))


def gpt2():
    config = GPT2Config(vocab_size=40, n_positions=16, n_embd=32, n_layer=2, n_head=4)
    return GPT2LMHeadModel(config), dict(input_ids=WORDS, attention_mask=MASK, labels=WORDS)


def llama():
    config = LlamaConfig(vocab_size=40, num_key_value_heads=2, max_position_embeddings=32, **SHAPE)
    return LlamaForCausalLM(config), dict(input_ids=WORDS, attention_mask=MASK, labels=WORDS)


def mixtral():
    config = MixtralConfig(
        vocab_size=40, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        output_router_logits=True, max_position_embeddings=32, **SHAPE,
    )  # fmt: skip
    return MixtralForCausalLM(config), dict(input_ids=WORDS, attention_mask=MASK, labels=WORDS)


def t5():
    config = T5Config(
        vocab_size=40, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        decoder_start_token_id=0, feed_forward_proj="gated-gelu",
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    return model, dict(input_ids=WORDS, attention_mask=MASK, labels=WORDS[:, 1:].contiguous())


def vit():
    model = ViTForImageClassification(ViTConfig(image_size=16, patch_size=4, num_labels=5, **SHAPE))
    return model, dict(pixel_values=torch.randn(2, 3, 16, 16), labels=torch.tensor([1, 4]))


for make in (bert, gpt2, llama, mixtral, t5, vit):
    torch.manual_seed(0)
    model, batch = make()
    print(make.__name__, sum(p.numel() for p in model.parameters()))
    model.eval()
    for attention in ("eager", "sdpa"):
        model.set_attn_implementation(attention)
        with torch.no_grad():
            logits = model(**batch).logits
        print(attention, tuple(logits.shape), f"{logits.mean():.5f} {logits.std():.5f}")
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        torch.manual_seed(1)
        loss = model(**batch).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        print(f"{loss:.4f} {norm:.3f}")
        optimizer.step()
        optimizer.zero_grad()
    out = model.eval()(**batch, output_hidden_states=True)
    states = out.hidden_states if "hidden_states" in out else out.decoder_hidden_states
    print(len(states), f"{states[-1].abs().mean():.3f}")
