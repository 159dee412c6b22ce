// One declaration a schedule; each is a file of its own. Internal to the catalogue.
#pragma once

#include "schedules/registry.h"

namespace unlatch {

Method bp_method();
Method gpipe_method();
Method one_f_one_b_method();
Method ddg_method();
Method fr_method();
Method fdg_method();
Method dsp_method();

}  // namespace unlatch
