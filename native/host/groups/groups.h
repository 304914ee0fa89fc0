// Groups: the parts of a core with KV cache groups that replace Running and Admissions.
#pragma once

#include "group_admissions.h"
#include "group_census.h"
#include "group_running.h"

namespace blockstep {

struct Groups {
  GroupRows rows;
  GroupRunning running;
  GroupAdmissions admissions;
  GroupCensus census;

  Groups(const HostConfig& config, const Exchange& exchange, FactLog& facts, Slots& slots)
      : rows(config, exchange, facts, slots), running(config, facts, slots, rows),
        admissions(config, exchange, facts, slots, rows), census(config, facts, slots, rows) {}
};

}  // namespace blockstep
