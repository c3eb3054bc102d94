#include "program/text.h"

namespace weft::program {
namespace {

/// The operators of a verb; empty where `sub` is a number.
std::vector<std::string_view> operators(Verb verb) {
    switch (verb) {
        case Verb::Binary:
        case Verb::Inplace:
            return {std::begin(kBinary), std::end(kBinary)};
        case Verb::Unary:
            return {std::begin(kUnary), std::end(kUnary)};
        case Verb::Compare:
            return {std::begin(kCompare), std::end(kCompare)};
        case Verb::Format:
            return {std::begin(kConvert), std::end(kConvert)};
        default:
            return {};
    }
}

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

class Printer {
public:
    Printer(const Function& f, const Remark& remark) : f_(f), remark_(remark) {}

    std::string run() {
        out_ = "function params=" + std::to_string(f_.params) +
               " own_cells=" + std::to_string(f_.own_cells) +
               " consts=" + std::to_string(f_.consts) + " attrs=" + std::to_string(f_.attrs) + " " +
               f_.name + "\nregisters";
        for (const std::string& name : f_.registers)
            out_ += " " + (name.empty() ? quoted("") : name);
        out_ += "\ncells";
        for (const std::string& name : f_.cells) out_ += " " + name;
        out_ += "\n{\n";
        region(f_.body, 1);
        return out_ + "}\n";
    }

private:
    void indent(int depth) { out_.append(static_cast<size_t>(4 * depth), ' '); }
    std::string place(int32_t operand) const {
        if (operand < 0) return "#" + std::to_string(~operand);
        return f_.registers[static_cast<size_t>(operand)] + "%" + std::to_string(operand);
    }

    void region(const Region& instructions, int depth) {
        for (const Instruction& i : instructions) instruction(i, depth);
    }

    void instruction(const Instruction& i, int depth) {
        indent(depth);
        for (size_t k = 0; k < i.outs.size(); ++k) out_ += (k ? " " : "") + place(i.outs[k]);
        if (!i.outs.empty()) out_ += " = ";
        out_ += kVerbNames[static_cast<size_t>(i.verb)];
        if (const auto known = operators(i.verb); !known.empty())
            out_ += " " + quoted(known[static_cast<size_t>(i.sub)]);
        else if (i.sub) out_ += " sub=" + std::to_string(i.sub);
        for (int32_t o : i.operands) out_ += " " + place(o);
        if (i.attr >= 0) out_ += " attr=" + std::to_string(i.attr);
        if (i.names >= 0) out_ += " names=" + std::to_string(i.names);
        for (int32_t n : i.numbers) out_ += " number=" + std::to_string(n);
        if (i.offset >= 0) out_ += " @" + std::to_string(i.offset);
        const std::string told = remark_ ? remark_(i) : std::string();
        const std::string end = told.empty() ? "\n" : " ; " + told + "\n";
        if (i.regions.empty()) {
            out_ += end;
            return;
        }
        for (size_t k = 0; k < i.regions.size(); ++k) {
            if (k) indent(depth);
            out_ += k ? "} {\n" : " {" + end;
            region(i.regions[k], depth + 1);
        }
        indent(depth);
        out_ += "}\n";
    }

    const Function& f_;
    const Remark& remark_;
    std::string out_;
};

}  // namespace

std::string to_text(const Function& function, const Remark& remark) {
    return Printer(function, remark).run();
}

}  // namespace weft::program
