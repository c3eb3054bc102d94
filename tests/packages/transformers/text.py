"""A tokenizer made here, collators, pipelines."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    pipeline,
)

TEXT = ["the cat sat on the mat", "a dog ran in the park", "the dog sat", "a cat and a dog ran far"]
raw = Tokenizer(models.WordLevel(unk_token="[UNK]"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
raw.train_from_iterator(TEXT, trainers.WordLevelTrainer(special_tokens=special))
marks = [("[CLS]", 2), ("[SEP]", 3)]
raw.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, marks)
tokens = PreTrainedTokenizerFast(
    tokenizer_object=raw, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
    sep_token="[SEP]", mask_token="[MASK]", model_max_length=16,
)  # fmt: skip
batch = tokens(TEXT, padding=True, return_tensors="pt")
print({name: tuple(value.shape) for name, value in batch.items()}, batch["input_ids"].dtype)
print(batch.to("cpu")["attention_mask"].sum(1).tolist())

rows = [tokens(text) for text in TEXT]
print(DataCollatorWithPadding(tokens, pad_to_multiple_of=8)(rows)["input_ids"].shape)
torch.manual_seed(0)
masked = DataCollatorForLanguageModeling(tokens, mlm_probability=0.3)(rows)
print(masked["labels"].tolist())
plain = DataCollatorForLanguageModeling(tokens, mlm=False)(rows)
print((plain["labels"] == -100).sum().item())
labelled = [{**row, "labels": [k % 2 for k in row["input_ids"]]} for row in rows]
print(DataCollatorForTokenClassification(tokens)(labelled)["labels"].tolist()[2])
print(DataCollatorForSeq2Seq(tokens)(labelled)["labels"].shape)

torch.manual_seed(0)
shape = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
config = BertConfig(vocab_size=len(tokens), num_labels=3, initializer_range=0.3, **shape)


def shown(answers):
    for answer in answers if isinstance(answers, list) else [answers]:
        print(
            {k: f"{v:.3f}" if isinstance(v, float) else v for k, v in answer.items()}
            if isinstance(answer, dict) else [a["token_str"] for a in answer]
        )  # fmt: skip


classify = pipeline("text-classification", BertForSequenceClassification(config), tokenizer=tokens)
shown(classify(TEXT))
shown(pipeline("fill-mask", BertForMaskedLM(config), tokenizer=tokens)("the [MASK] sat", top_k=2))
tag = pipeline("token-classification", BertForTokenClassification(config), tokenizer=tokens)
shown([{**word, "score": float(word["score"]), "index": 0} for word in tag(TEXT[2])])
vectors = pipeline("feature-extraction", BertForMaskedLM(config).bert, tokenizer=tokens)(TEXT[0])
print(len(vectors[0]), f"{vectors[0][0][0]:.3f}")
gpt2 = GPT2LMHeadModel(
    GPT2Config(vocab_size=len(tokens), n_positions=32, n_embd=32, n_layer=2, n_head=4,
               eos_token_id=3, bos_token_id=2, initializer_range=0.3)
)  # fmt: skip
writer = pipeline("text-generation", gpt2, tokenizer=tokens)
settings = dict(add_special_tokens=False, max_new_tokens=6)
print(writer("the cat", do_sample=False, **settings)[0]["generated_text"])
torch.manual_seed(0)
print(writer(["a dog", "the"], do_sample=True, batch_size=2, **settings))
