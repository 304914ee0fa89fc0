// The host core as part of a test program: one translation unit, so that a test is still one file to build.
#pragma once

#include "../host/core.cc"
#include "../host/pending.cc"
#include "../host/mirror.cc"
#include "../host/mirrored.cc"
#include "../host/decided.cc"
#include "../host/decider.cc"
#include "../host/gathered.cc"
#include "../host/gatherer.cc"
#include "../host/tables.cc"
#include "../host/queries.cc"
#include "../host/request_table.cc"
#include "../host/step.cc"
