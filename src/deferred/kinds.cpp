#include "deferred/kinds.h"

#include <bit>
#include <cstring>

namespace weft::deferred {
namespace {

/// Two words a step by one long multiplication, whose halves are joined.
uint64_t hash_of(const uint64_t* key, size_t words) {
    uint64_t h = 0x9e3779b97f4a7c15 ^ words;
    for (size_t i = 0; i < words; i += 2) {
        uint64_t second = i + 1 < words ? key[i + 1] : 0;
        auto wide = static_cast<unsigned __int128>(key[i] ^ h) * (second ^ 0xd6e8feb86659fd93);
        h = static_cast<uint64_t>(wide) ^ static_cast<uint64_t>(wide >> 64) ^ second;
    }
    return h;
}

}  // namespace

uint32_t Interned::number(const uint64_t* key, size_t words, bool& fresh) {
    if (2 * (entries_.size() + 1) > table_.size()) grow();
    uint64_t hash = hash_of(key, words);
    size_t mask = table_.size() - 1, at = hash & mask;
    for (; table_[at]; at = (at + 1) & mask) {
        const Entry& e = entries_[table_[at] - 1];
        if (e.hash == hash && e.words == words &&
            std::equal(key, key + words, words_.data() + e.begin)) {
            fresh = false;
            return table_[at] - 1;
        }
    }
    fresh = true;
    entries_.push_back({hash, words_.size(), static_cast<uint32_t>(words)});
    words_.insert(words_.end(), key, key + words);
    table_[at] = static_cast<uint32_t>(entries_.size());
    return table_[at] - 1;
}

void Interned::forget_last() {
    auto last = static_cast<uint32_t>(entries_.size());
    size_t mask = table_.size() - 1, at = entries_.back().hash & mask;
    while (table_[at] != last) at = (at + 1) & mask;
    table_[at] = 0;  // nothing was put behind it
    words_.resize(entries_.back().begin);
    entries_.pop_back();
}

void Interned::grow() {
    table_.assign(std::max<size_t>(256, 2 * table_.size()), 0);
    size_t mask = table_.size() - 1;
    for (size_t i = 0; i < entries_.size(); ++i) {
        size_t at = entries_[i].hash & mask;
        while (table_[at]) at = (at + 1) & mask;
        table_[at] = static_cast<uint32_t>(i + 1);
    }
}

void Interned::clear() {
    entries_.clear();
    words_.clear();
    table_.clear();
}

void Kinds::clear() {
    class_keys.clear();
    kind_keys.clear();
    group_keys.clear();
    each_keys.clear();
    classes.clear();
    kinds.clear();
    each.clear();
}

void append(Key& key, const Value& v) {
    key.push_back(static_cast<uint64_t>(v.kind()));
    switch (v.kind()) {
        case Value::Kind::None:
            break;
        case Value::Kind::Float:
            key.push_back(std::bit_cast<uint64_t>(v.as_double()));
            break;
        case Value::Kind::Complex:
            key.push_back(std::bit_cast<uint64_t>(v.as_complex().real()));
            key.push_back(std::bit_cast<uint64_t>(v.as_complex().imag()));
            break;
        case Value::Kind::DType:
            key.push_back(static_cast<uint64_t>(v.as_dtype()));
            break;
        case Value::Kind::Ints:
            key.push_back(v.as_ints().size());
            for (int64_t i : v.as_ints()) key.push_back(static_cast<uint64_t>(i));
            break;
        case Value::Kind::Text:
            key.push_back(v.as_text().size());
            for (char c : v.as_text()) key.push_back(static_cast<unsigned char>(c));
            break;
        default:
            key.push_back(static_cast<uint64_t>(v.as_int()));
    }
}

namespace {

struct NumberedAttrs {
    Interned known;
    uint64_t before = 0;  ///< numbers of tables that were cleared
};
NumberedAttrs& numbered() {
    static auto* all = new NumberedAttrs;  // outlives what Python drops at exit
    return *all;
}

}  // namespace

uint64_t number_of_attrs(const Value* attrs, size_t count) {
    constexpr size_t kMost = 1 << 16;
    NumberedAttrs& all = numbered();
    if (all.known.size() >= kMost) {
        all.before += all.known.size();
        all.known.clear();
    }
    Key key;
    for (size_t k = 0; k < count; ++k) append(key, attrs[k]);
    bool fresh;
    return all.before + all.known.number(key.data(), key.size(), fresh) + 1;
}

size_t numbered_attrs() { return numbered().known.size(); }

}  // namespace weft::deferred
