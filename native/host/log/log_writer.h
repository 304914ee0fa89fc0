// LogWriter: builds a log. Consecutive items of the same kind become one command.
#pragma once

#include <algorithm>
#include <vector>

#include "../../core/base/command.h"

namespace blockstep {

/// The maximum number of words of a command, so that a command fits into one log of a mirror.
/// Further items start a new command. The division into commands does not change the meaning of the
/// items. Only an Open, which cannot be cut, may be longer.
constexpr u32 kMaxCommandWords = 1u << 15;

/// A method that throws std::bad_alloc leaves the log unchanged.
class LogWriter {
 public:
  LogWriter() : buffer_(4096) {}

  /// `row` gets `count` >= 1 blocks.
  void extend(u32 row, u32 count) {
    u32* item = add(Op::kExtend, 2);
    item[0] = row;
    item[1] = count;
  }

  /// Block `index` of `row` is published under `key`.
  void publish(u32 row, u32 index, const Key& key) {
    u32* item = add(Op::kPublish, kPublishWords);
    item[0] = row;
    item[1] = index;
    put_key(item + 2, key);
  }

  /// Drops the blocks of `count` >= 1 places of `row`, starting with `from`.
  void drop(u32 row, u32 from, u32 count) { put3(Op::kDrop, row, from, count); }

  /// `row` gets `count` >= 1 empty places.
  void pad(u32 row, u32 count) {
    u32* item = add(Op::kPad, 2);
    item[0] = row;
    item[1] = count;
  }

  /// The block in place `from` of `row` moves to place `to`.
  void move(u32 row, u32 from, u32 to) { put3(Op::kMove, row, from, to); }

  /// Makes the next item begin a new command, because one Extend must not name a row twice.
  void cut() { joins_ = false; }

  /// An item of a command that lists rows or block ids: Release, Pin, Unpin or Evict.
  void list(Op op, u32 id) { *add(op, 1) = id; }

  /// Opens a free row with `count` cached blocks.
  void open_row(u32 row, const u32* ids, u32 count) {
    make_room(count + u64{2});
    start(head_word(Op::kOpen, count));
    buffer_[size_++] = row;
    std::copy_n(ids, count, buffer_.data() + size_);
    size_ += count;
  }

  /// Drops every key.
  void reset() {
    make_room(1);
    start(head_word(Op::kReset, 0));
  }

  const u32* words() const { return buffer_.data(); }
  u32 size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Whether a command may change the reference count of a row's block, or the number of rows in
  /// use.
  bool moves_refs() const { return moves_refs_; }
  void clear() {
    size_ = 0;
    joins_ = true;
    moves_refs_ = false;
  }

 private:
  void put3(Op op, u32 a, u32 b, u32 c) {
    u32* item = add(op, 3);
    item[0] = a;
    item[1] = b;
    item[2] = c;
  }

  /// Makes room for one more item of `words` words and returns its place. The place is in the last
  /// command if that has the same kind and is not too long, otherwise in a new command.
  u32* add(Op op, u32 words) {
    make_room(words + u64{1});
    const bool joins = joins_ && size_ != 0 && op_of(buffer_[head_]) == op && size_ - head_ + words <= kMaxCommandWords;
    if (!joins) start(head_word(op, 0));
    buffer_[head_] += 1u << 8;
    size_ += words;
    return buffer_.data() + size_ - words;
  }

  void start(u32 head) {
    joins_ = true;
    moves_refs_ |= op_of(head) != Op::kExtend && op_of(head) != Op::kPublish;
    head_ = size_;
    buffer_[size_++] = head;
  }

  void make_room(u64 more) {
    if (size_ + more > buffer_.size()) buffer_.resize(std::max(size_ + more, u64{2} * buffer_.size()));
  }

  static_assert(kMaxCommandWords <= kMaxCount);
  std::vector<u32> buffer_;
  u32 size_ = 0;  // words written
  bool joins_ = true;  // whether the next item may join the last command
  bool moves_refs_ = false;
  u32 head_ = 0;  // start of the last command; undefined while the log is empty
};

}  // namespace blockstep
