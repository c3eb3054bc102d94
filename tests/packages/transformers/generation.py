"""generate: greedy, sampled, by beams; with a cache and without; stopped and steered."""

import torch
from transformers import (
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessorList,
    MinLengthLogitsProcessor,
    StoppingCriteriaList,
    T5Config,
    T5ForConditionalGeneration,
)

torch.manual_seed(0)
gpt2 = GPT2LMHeadModel(
    GPT2Config(vocab_size=40, n_positions=64, n_embd=32, n_layer=2, n_head=4, initializer_range=0.5)
)
gpt2.generation_config = GenerationConfig(eos_token_id=2, pad_token_id=0)
words = torch.tensor([[0, 0, 5, 6, 7], [8, 9, 10, 11, 12]])
mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])


def told(name, model, **options):
    torch.manual_seed(3)
    out = model.generate(words, attention_mask=mask, max_new_tokens=8, **options)
    print(name, out.tolist())


for model in (
    gpt2,
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, intermediate_size=48, pad_token_id=0, eos_token_id=2,
            initializer_range=0.5,
        )
    ),
    T5ForConditionalGeneration(
        T5Config(vocab_size=40, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
                 decoder_start_token_id=0, pad_token_id=0, eos_token_id=2)
    ),
):  # fmt: skip
    model.eval()
    print(type(model).__name__)
    told("greedy", model, do_sample=False)
    told("without cache", model, do_sample=False, use_cache=False)
    told("sampled", model, do_sample=True, temperature=0.8)
    told("top", model, do_sample=True, top_k=5, top_p=0.9)
    told("beams", model, num_beams=3, num_return_sequences=2, length_penalty=0.7)
    told("sampled beams", model, num_beams=2, do_sample=True)
    told("steered", model, repetition_penalty=1.3, no_repeat_ngram_size=2, bad_words_ids=[[5]])
    told("static", model, do_sample=False, cache_implementation="static")

out = gpt2.generate(
    words, attention_mask=mask, max_new_tokens=5, return_dict_in_generate=True, output_scores=True,
    logits_processor=LogitsProcessorList([MinLengthLogitsProcessor(9, 2)]),
    stopping_criteria=StoppingCriteriaList([lambda ids, scores, **_: torch.tensor([False, False])]),
)  # fmt: skip
print(out.sequences.tolist(), len(out.scores))
scores = gpt2.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
print([[f"{x:.4f}" for x in row] for row in scores.tolist()])
