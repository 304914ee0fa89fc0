// The host core as part of a test program: one translation unit, so that a test is still one file to build.
#pragma once

#include "../../host/core.cc"
#include "../../host/step/pending.cc"
#include "../../host/mirror/mirror.cc"
#include "../../host/mirror/mirrored.cc"
#include "../../host/decided/decided.cc"
#include "../../host/decided/decider.cc"
#include "../../host/gather/gathered.cc"
#include "../../host/gather/gatherer.cc"
#include "../../host/tables/tables.cc"
#include "../../host/queries.cc"
#include "../../host/requests/request_table.cc"
#include "../../host/step/step.cc"
