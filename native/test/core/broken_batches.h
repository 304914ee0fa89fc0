// Batches with broken promises, and the expected fault of each.
#pragma once

#include <functional>

#include "../../core/decide/decide.h"
#include "../workload/decide_workload.h"

namespace blockstep::test {

static const u32 kUsual = kChunkedPrefill | kReserveAll;

struct BrokenBatch {
  const char* what;
  u32 fault;
  std::function<void(std::vector<u32>&, Workspace&)> damage;
};

/// Two rows in use with two blocks each, three free rows, one running entry for each used row, and
/// an admission of nine tokens.
static std::vector<u32> good_batch() {
  BatchWriter writer;
  writer.clear();
  const Log facts = [] {
    Log log;
    log.add(Op::kOpen, 0, {0});
    log.add(Op::kOpen, 0, {1});
    log.add(Op::kExtend, 2, {0, 2, 1, 2});
    return log;
  }();
  writer.facts(facts.words.data(), facts.size());
  writer.run(0, 1);
  writer.publication(0, 1, {1, 1});
  writer.run(1, 2);
  writer.publication(1, 3, {2, 2});
  writer.free_row(2);
  const Key keys[] = {{3, 3}, {4, 4}};
  writer.admission({9, 0, kNone, 0, 2, kNone, 0, 0}, keys);
  return writer.words({kUsual, 100, 4, 4, 0, 0, 32});
}

static std::vector<BrokenBatch> broken_batches() {
  const u32 header = kWordsOf<BatchHeader>;
  const u32 running = header + 9, publications = running + 6, rows = publications + 12, admission = rows + 1;
  return {
      {"nothing is wrong", kNoFault, [](auto&, auto&) {}},
      {"another version", kBadCommand, [](auto& words, auto&) { words[0] = kBatchVersion + 1; }},
      {"fewer words than a header", kBadCommand, [](auto& words, auto&) {
         words = std::vector<u32>(words.begin(), words.begin() + 1);
       }},
      {"more words than there are", kBadCommand, [](auto& words, auto&) { words[1] += 1; }},
      {"blocks of no tokens", kBadCommand, [](auto& words, auto&) { words[10] = 0; }},
      {"facts past the end", kBadCommand, [](auto& words, auto&) { words[2] = kNone; }},
      {"running entries past the end", kBadCommand, [](auto& words, auto&) { words[3] = kNone; }},
      {"publications past the end", kBadCommand, [](auto& words, auto&) { words[4] = kNone; }},
      {"rows past the end", kBadCommand, [](auto& words, auto&) { words[5] += 17; }},
      {"admissions past the end", kBadCommand, [](auto& words, auto&) { words[6] = 2; }},
      {"keys past the end", kBadCommand, [=](auto& words, auto&) { words[admission + 4] = 3; }},
      {"so many keys that their words overflow", kBadCommand, [=](auto& words, auto&) { words[admission + 4] = 1u << 30; }},
      {"everything computed", kBadCommand, [=](auto& words, auto&) { words[admission + 1] = 9; }},
      {"tokens brought behind any hits", kBadCommand, [=](auto& words, auto&) { words[admission + 6] = 1; }},
      {"a load behind any hits", kBadCommand, [=](auto& words, auto&) { words[admission + 7] = kLoadsFirst; }},
      {"padding of a load", kBadCommand, [=](auto& words, auto&) {
         words[admission + 5] = 1, words[admission + 6] = 1, words[admission + 7] = kLoadsFirst | kPads;
       }},
      {"everything brought", kBadCommand, [=](auto& words, auto&) {
         words[admission + 5] = 1, words[admission + 6] = 5;
       }},
      {"more loaded than there is", kBadCommand, [=](auto& words, auto&) {
         words[admission + 5] = 1, words[admission + 6] = 6, words[admission + 7] = kLoadsFirst;
       }},
      {"so many hits that their tokens overflow", kBadCommand, [=](auto& words, auto&) {
         words[admission + 5] = 1u << 30;
       }},
      {"hits of what is computed", kBadCommand, [=](auto& words, auto&) {
         words[admission + 1] = 4, words[admission + 5] = 1;
       }},
      {"tokens brought to what is computed", kBadCommand, [=](auto& words, auto&) {
         words[admission + 1] = 4, words[admission + 5] = 0, words[admission + 6] = 1;
       }},
      {"a load of what is computed", kBadCommand, [=](auto& words, auto&) {
         words[admission + 1] = 4, words[admission + 5] = 0, words[admission + 7] = kLoadsFirst;
       }},
      {"facts that are none", kBadCommand, [=](auto& words, auto&) { words[header] = 0; }},
      {"more publications than there are", kBadCommand, [=](auto& words, auto&) { words[running + 5] = 3; }},
      {"a row that is not in use", kRowNotInUse, [=](auto& words, auto&) { words[running] = 3; }},
      {"a row twice", kRowRepeated, [=](auto& words, auto&) { words[running + 3] = 0; }},
      {"a row that gets too long", kRowTooLong, [=](auto& words, auto&) { words[running + 1] = 9; }},
      {"a block behind the row's end", kNoSuchBlock, [=](auto& words, auto&) { words[publications + 7] = 4; }},
      {"a block far behind the table's end", kNoSuchBlock, [=](auto& words, auto&) {
         words[publications + 7] = 1u << 24;
       }},
      {"a block of a free row", kRowNotInUse, [=](auto& words, auto&) { words[publications + 6] = 3; }},
      {"a block published twice", kAlreadyPublished, [=](auto& words, auto&) {
         words[publications + 6] = 0, words[publications + 7] = 1;
       }},
      {"a free row in use", kRowInUse, [=](auto& words, auto&) { words[rows] = 1; }},
      {"no room for the ids", kResultsFull, [](auto&, Workspace& workspace) { workspace.max_ids = 9; }},
      {"no room for any log", kResultsFull, [](auto&, Workspace& workspace) { workspace.max_log = 0; }},
      {"no room for the Extend", kResultsFull, [](auto&, Workspace& workspace) { workspace.max_log = 4; }},
      {"no room for the Publish", kResultsFull, [](auto&, Workspace& workspace) { workspace.max_log = 17; }},
      {"no room for the Open", kResultsFull, [](auto&, Workspace& workspace) { workspace.max_log = 21; }},
      {"no room for the admission's Extend", kResultsFull, [](auto&, Workspace& workspace) { workspace.max_log = 22; }},
      {"no room for the admission's Publish", kResultsFull, [](auto&, Workspace& workspace) { workspace.max_log = 35; }},
      {"just enough room", kNoFault, [](auto&, Workspace& workspace) {
         workspace.max_log = 36;
         workspace.max_ids = 10;
       }},
  };
}

}  // namespace blockstep::test
