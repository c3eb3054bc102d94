/// A function in instructions, as it is read, printed and checked; code.h is what runs.
#pragma once
#include <string>
#include <vector>

#include "program/verbs.h"

namespace weft::program {

/// One instruction. An operand is a register, or constant ~operand where it is negative.
struct Instruction;
using Region = std::vector<Instruction>;
struct Instruction {
    Verb verb;
    int32_t sub = 0;      ///< which operator; of `cell` … which cell; of `function` which inner one
    int32_t attr = -1;    ///< in Function::attrs: a name
    int32_t names = -1;   ///< in Function::attrs: names of keyword arguments, or what is imported
    int32_t offset = -1;  ///< of the bytecode instruction that does the same
    std::vector<int32_t> outs, operands;
    std::vector<int32_t>
        numbers;  ///< `unpack` with a star: before, after; `try`: the handlers' names; `method`:
                  ///< the offset of the look-up
    std::vector<Region> regions;

    bool operator==(const Instruction&) const = default;
};

struct Function {
    std::string name;
    std::vector<std::string>
        registers;                   ///< their names; those of temporaries are empty and come last
    int32_t params = 0;              ///< how many registers are parameters
    std::vector<std::string> cells;  ///< its own, then those of the functions around it
    int32_t own_cells = 0;
    int32_t consts = 0, attrs = 0;  ///< how many; what they are knows who runs it
    Region body;

    bool operator==(const Function&) const = default;
};

}  // namespace weft::program
