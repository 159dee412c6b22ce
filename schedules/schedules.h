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
Method adl_method();
Method pipedream_method();
Method pipedream_2bw_method();
Method dgl_method();
Method dni_method();
Method dfa_method();
Method interleaved_1f1b_method();
Method looped_bfs_method();
Method zb_h1_method();
Method zb_h2_method();
Method interleaved_zb_method();
Method zb_v_method();
Method v_half_method();
Method v_min_method();
Method zb_auto_method();
Method dualpipev_method();
Method hanayo_method();
Method dualpipe_method();
Method chimera_method();
Method ssgd_method();
Method local_sgd_method();
Method asgd_method();
Method ssp_method();
Method ssd_sgd_method();

}  // namespace unlatch
