#include <etna/device/internal/vulkan/pipelines/taken_branches.h>

#include <etna/device/internal/vulkan/pipelines/spirv_ops.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace etna::vulkan {
namespace {

using namespace spirv;

using Words = std::vector<std::uint32_t>;

struct Instruction {
  std::uint32_t op = 0;
  std::span<const std::uint32_t> all, w;  ///< with the word of length and opcode, and without
};

struct Block {
  std::uint32_t label = 0;
  std::vector<Instruction> code;       ///< behind the label
  const Instruction* merge = nullptr;  ///< OpSelectionMerge or OpLoopMerge
  std::vector<std::uint32_t> targets;  ///< of the last instruction
  std::optional<std::uint32_t> taken;  ///< the one it leads to whatever happens
  bool live = false;
};

struct Function {
  std::uint32_t id = 0;
  std::vector<Instruction> head;  ///< OpFunction and parameters
  std::vector<Block> blocks;
  std::unordered_map<std::uint32_t, std::size_t> by_label;
  bool called = false;
};

/// The id an instruction of a function defines; 0: none.
std::uint32_t result_of(const Instruction& i) {
  switch (i.op) {
    case 0:     // nothing
    case 8:     // line
    case 62:    // store
    case 63:    // copy memory
    case 64:    // copy memory of a size
    case 99:    // image write
    case 224:   // control barrier
    case 225:   // memory barrier
    case 228:   // atomic store
    case 317:   // no line
    case 4458:  // cooperative matrix store
    case 5368:  // cooperative matrix store through a tensor layout
    case OpFunctionEnd:
      return 0;
    case OpLabel:
      return i.w[0];
    default:
      return (i.op >= OpLoopMerge && i.op <= OpUnreachable) || i.w.size() < 2 ? 0 : i.w[1];
  }
}

class Module {
 public:
  Module(std::span<const std::uint32_t> words, std::span<const SpecializationValue> constants) : words_(words) {
    for (const SpecializationValue& c : constants) given_[c.id] = c.value;
  }

  /// Empty where it is not understood, or stays as it is.
  Words reduced() {
    if (!parse()) return {};
    for (const Instruction& i : globals_) constant(i);
    if (some_integer_ == 0) return {};
    bool less = false;
    for (Function& f : functions_) {
      if (!follow(f)) return {};
      for (const Block& b : f.blocks) less = less || !b.live;
    }
    if (!less) return {};
    call(entry_);
    return write();
  }

 private:
  bool parse() {
    if (words_.size() < 5) return false;
    Function* function = nullptr;
    for (std::size_t at = 5; at < words_.size();) {
      const std::uint32_t length = words_[at] >> 16, op = words_[at] & 0xffffu;
      if (length == 0 || at + length > words_.size()) return false;
      const Instruction i{op, words_.subspan(at, length), words_.subspan(at + 1, length - 1)};
      at += length;
      if (op == OpEntryPoint) entry_ = i.w[1], ++entries_;
      if (op == OpFunction) {
        function = &functions_.emplace_back();
        function->id = i.w[1];
      }
      if (function == nullptr) {
        globals_.push_back(i);
      } else if (op == OpFunctionEnd) {
        function = nullptr;
      } else if (op == OpLabel) {
        function->by_label[i.w[0]] = function->blocks.size();
        function->blocks.emplace_back().label = i.w[0];
      } else if (function->blocks.empty()) {
        function->head.push_back(i);
      } else {
        function->blocks.back().code.push_back(i);
      }
    }
    for (Function& f : functions_) {
      for (Block& b : f.blocks) {
        if (b.code.empty() || !ends(b)) return false;
      }
    }
    return entries_ == 1 && function == nullptr;
  }

  /// Reads where a block leads to.
  static bool ends(Block& b) {
    const Instruction& last = b.code.back();
    if (b.code.size() > 1) {
      const Instruction& before = b.code[b.code.size() - 2];
      if (before.op == OpSelectionMerge || before.op == OpLoopMerge) b.merge = &before;
    }
    if (last.op == OpBranch) b.targets = {last.w[0]};
    if (last.op == OpBranchConditional) b.targets = {last.w[1], last.w[2]};
    if (last.op == OpSwitch) {
      // Literals of 32 bits: pairs of a value and a label behind the default.
      if (last.w.size() % 2 != 0) return false;
      for (std::size_t k = 1; k < last.w.size(); k += 2) b.targets.push_back(last.w[k]);
    }
    return last.op >= OpBranch && last.op <= OpUnreachable;
  }

  void constant(const Instruction& i) {
    const auto spec = [&](std::uint32_t id, std::uint32_t otherwise) {
      const auto number = spec_ids_.find(id);
      if (number == spec_ids_.end()) return otherwise;
      const auto value = given_.find(number->second);
      return value == given_.end() ? otherwise : value->second;
    };
    switch (i.op) {
      case OpDecorate:
        if (i.w.size() == 3 && i.w[1] == kSpecId) spec_ids_[i.w[0]] = i.w[2];
        break;
      case OpTypeBool:
        scalars_.insert(i.w[0]);
        break;
      case OpTypeInt:
        if (i.w[1] == 32) scalars_.insert(i.w[0]), integers_.insert(i.w[0]);
        break;
      case OpConstantTrue:
      case OpConstantFalse:
        known_[i.w[1]] = i.op == OpConstantTrue;
        break;
      case OpSpecConstantTrue:
      case OpSpecConstantFalse:
        known_[i.w[1]] = spec(i.w[1], i.op == OpSpecConstantTrue) != 0;
        break;
      case OpConstant:
        if (!integers_.contains(i.w[0])) break;
        known_[i.w[1]] = i.w[2];
        some_integer_ = i.w[1];
        break;
      case OpSpecConstant:
        if (integers_.contains(i.w[0])) known_[i.w[1]] = spec(i.w[1], i.w[2]);
        break;
      case OpSpecConstantOp:
        learn(i.w[0], i.w[1], i.w[2], i.w.subspan(3));
        break;
      default:
        break;
    }
  }

  std::optional<std::uint32_t> value(std::uint32_t id) const {
    const auto found = known_.find(id);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

  void learn(std::uint32_t type, std::uint32_t id, std::uint32_t op, std::span<const std::uint32_t> operands) {
    if (!scalars_.contains(type) || operands.empty() || operands.size() > 3) return;
    std::uint32_t v[3] = {};
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const auto operand = value(operands[k]);
      if (!operand) return;
      v[k] = *operand;
    }
    if (const auto result = compute(op, v[0], v[1], v[2])) known_[id] = *result;
  }

  /// Finds the blocks that are reached. @return false where a loop loses the way back, which is not understood
  bool follow(Function& f) {
    for (std::size_t before = ~std::size_t{0}; before != known_.size();) {
      before = known_.size();
      for (Block& b : f.blocks) b.live = false, b.taken.reset();
      std::vector<std::size_t> todo = {0};
      while (!todo.empty()) {
        Block& b = f.blocks[todo.back()];
        todo.pop_back();
        if (b.live) continue;
        b.live = true;
        for (const Instruction& i : b.code) {
          if (i.op >= OpIAdd && i.op <= OpBitwiseAnd && i.w.size() >= 3) learn(i.w[0], i.w[1], i.op, i.w.subspan(2));
        }
        decide(b);
        for (std::uint32_t target : b.targets) {
          if (!f.by_label.contains(target)) return false;
          if (!b.taken || *b.taken == target) todo.push_back(f.by_label.at(target));
        }
      }
      for (const Block& b : f.blocks) {
        for (const Instruction& i : b.code) {
          if (b.live && i.op == OpPhi) phi(f, b, i);
        }
      }
    }
    for (const Block& b : f.blocks) {
      if (b.live && b.merge != nullptr && b.merge->op == OpLoopMerge && !f.blocks[f.by_label.at(b.merge->w[1])].live)
        return false;
    }
    return true;
  }

  /// Loops are left as they are.
  void decide(Block& b) const {
    const Instruction& last = b.code.back();
    if (b.merge == nullptr || b.merge->op != OpSelectionMerge) return;
    const auto condition = value(last.w[0]);
    if (!condition) return;
    if (last.op == OpBranchConditional) b.taken = *condition != 0 ? last.w[1] : last.w[2];
    if (last.op == OpSwitch) {
      b.taken = last.w[1];
      for (std::size_t k = 2; k + 1 < last.w.size(); k += 2) {
        if (last.w[k] == *condition) b.taken = last.w[k + 1];
      }
    }
  }

  static bool leads(const Function& f, std::uint32_t from, std::uint32_t to) {
    const auto at = f.by_label.find(from);
    if (at == f.by_label.end() || !f.blocks[at->second].live) return false;
    const Block& b = f.blocks[at->second];
    return b.taken ? *b.taken == to : std::count(b.targets.begin(), b.targets.end(), to) > 0;
  }

  /// A phi is known where all that still arrives is known and the same.
  void phi(const Function& f, const Block& b, const Instruction& i) {
    std::optional<std::uint32_t> all;
    for (std::size_t k = 2; k + 1 < i.w.size(); k += 2) {
      if (!leads(f, i.w[k + 1], b.label)) continue;
      const auto one = value(i.w[k]);
      if (!one || (all && *all != *one)) return;
      all = one;
    }
    if (all && scalars_.contains(i.w[0])) known_[i.w[1]] = *all;
  }

  void call(std::uint32_t id) {
    for (Function& f : functions_) {
      if (f.id != id || f.called) continue;
      f.called = true;
      for (const Block& b : f.blocks) {
        for (const Instruction& i : b.code) {
          if (b.live && i.op == OpFunctionCall) call(i.w[2]);
        }
      }
    }
  }

  /// Blocks that are not reached but end a construct that is, and so have to be there.
  static std::unordered_set<std::uint32_t> ends_of(const Function& f) {
    std::unordered_set<std::uint32_t> ends;
    for (const Block& b : f.blocks) {
      if (b.live && b.merge != nullptr) ends.insert(b.merge->w[0]);
    }
    return ends;
  }

  Words write() const {
    Words bodies;
    std::unordered_set<std::uint32_t> gone, kept;
    const auto put = [&](const Instruction& i) {
      bodies.insert(bodies.end(), i.all.begin(), i.all.end());
      kept.insert(result_of(i));
    };
    for (const Function& f : functions_) {
      const auto ends = ends_of(f);
      for (const Instruction& i : f.head) f.called ? put(i) : void(gone.insert(result_of(i)));
      for (const Block& b : f.blocks) {
        const bool there = f.called && (b.live || ends.contains(b.label));
        (there ? kept : gone).insert(b.label);
        if (there) bodies.insert(bodies.end(), {2u << 16 | OpLabel, b.label});
        if (there && !b.live) bodies.push_back(1u << 16 | OpUnreachable);
        for (const Instruction& i : b.code) {
          if (!there || !b.live) {
            gone.insert(result_of(i));
          } else if (i.op == OpPhi) {
            write_phi(f, b, i, bodies);
            kept.insert(i.w[1]);
          } else if (b.taken && &i == &b.code.back()) {
            // The construct stays, so that what leaves it early still does: a switch that knows its default alone.
            bodies.insert(bodies.end(), {3u << 16 | OpSwitch, some_integer_, *b.taken});
          } else {
            put(i);
          }
        }
      }
      if (f.called) bodies.push_back(1u << 16 | OpFunctionEnd);
    }
    Words out(words_.begin(), words_.begin() + 5);
    for (const Instruction& i : globals_) {
      const bool about = i.op == OpName || i.op == OpMemberName || (i.op >= OpDecorate && i.op <= 72);
      if (about && gone.contains(i.w[0]) && !kept.contains(i.w[0])) continue;
      out.insert(out.end(), i.all.begin(), i.all.end());
    }
    out.insert(out.end(), bodies.begin(), bodies.end());
    return out;
  }

  static void write_phi(const Function& f, const Block& b, const Instruction& i, Words& out) {
    const std::size_t at = out.size();
    out.insert(out.end(), {0, i.w[0], i.w[1]});
    for (std::size_t k = 2; k + 1 < i.w.size(); k += 2) {
      if (leads(f, i.w[k + 1], b.label)) out.insert(out.end(), {i.w[k], i.w[k + 1]});
    }
    out[at] = static_cast<std::uint32_t>(out.size() - at) << 16 | OpPhi;
  }

  std::span<const std::uint32_t> words_;
  std::vector<Instruction> globals_;
  std::vector<Function> functions_;
  std::uint32_t entry_ = 0, entries_ = 0, some_integer_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> given_, spec_ids_, known_;
  std::unordered_set<std::uint32_t> scalars_, integers_;
};

}  // namespace

std::vector<std::uint32_t> taken_branches(std::span<const std::uint32_t> words,
                                          std::span<const SpecializationValue> constants) {
  Words less = Module(words, constants).reduced();
  return less.empty() ? Words(words.begin(), words.end()) : less;
}

}  // namespace etna::vulkan
