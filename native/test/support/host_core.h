// The host core as part of a test program. If it is linked (BLOCKSTEP_HOST_IS_LINKED), a test
// includes only its headers. Otherwise it is one translation unit with the test, so that a test is
// one file to build.
#pragma once

#if defined(BLOCKSTEP_HOST_IS_LINKED)
#include "../../host/core.h"
#include "../../host/decided/decider.h"
#else
#include "../../host/base/condition.cc"
#include "../../host/core.cc"
#include "../../host/core_groups.cc"
#include "../../host/decided/decider.cc"
#include "../../host/decided/decisions.cc"
#include "../../host/decided/followed.cc"
#include "../../host/events/kv_events.cc"
#include "../../host/gather/device_gather.cc"
#include "../../host/gather/gatherer.cc"
#include "../../host/gather/host_gather.cc"
#include "../../host/groups/group_admissions.cc"
#include "../../host/groups/group_census.cc"
#include "../../host/groups/group_rows.cc"
#include "../../host/groups/group_running.cc"
#include "../../host/groups/prefix_search.cc"
#include "../../host/inspect/queries.cc"
#include "../../host/log/fact_log.cc"
#include "../../host/log/pool_commands.cc"
#include "../../host/mirror/mirror.cc"
#include "../../host/mirror/mirrored.cc"
#include "../../host/requests/check_frame.cc"
#include "../../host/requests/hash_lanes.cc"
#include "../../host/requests/request_table.cc"
#include "../../host/requests/slots.cc"
#include "../../host/step/admissions.cc"
#include "../../host/step/pending.cc"
#include "../../host/step/running.cc"
#include "../../host/tables/tables.cc"
#endif
