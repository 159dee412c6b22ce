# The optimizers of Unlatch that PyTorch lacks, in the form of their papers; at a constant rate the
# same as models/optimizer_rules.h and models/trust_rules.h have, but for the epsilon of our lars.
# Of lars and lamb, tensors of one dimension neither scale nor decay.
import torch


class Paper(torch.optim.Optimizer):
    def __init__(self, parameters, rate, decay=0, **keys):
        super().__init__(parameters, {"lr": rate, "decay": decay, **keys})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                adapted = weight.dim() > 1
                state = self.state[weight]
                state["steps"] = state.get("steps", 0) + 1
                weight.add_(self.move(weight, weight.grad, adapted, state, group))

    @staticmethod
    def kept(state, name, weight):
        return state.setdefault(name, torch.zeros_like(weight))


class Sum(Paper):
    """Stochastic unified momentum: Xu et al., CVPR 2020, eq. 3, from x^0 = y^0 = y^{s,0}."""

    def __init__(self, parameters, rate, momentum=0.9, s=1, decay=0):
        super().__init__(parameters, rate, decay, momentum=momentum, s=s)

    def move(self, weight, gradient, adapted, state, group):
        gradient = gradient + group["decay"] * weight
        y = weight - group["lr"] * gradient
        ys = weight - group["s"] * group["lr"] * gradient
        last = state.get("ys", weight.clone())
        state["ys"] = ys
        return y + group["momentum"] * (ys - last) - weight


class Lars(Paper):
    """You et al. 2017, arXiv 1708.03888, algorithm 1; their velocity contains the rate."""

    def __init__(self, parameters, rate, momentum=0.9, trust=0.001, decay=0):
        super().__init__(parameters, rate, decay, momentum=momentum, trust=trust)

    def move(self, weight, gradient, adapted, state, group):
        decay = group["decay"] if adapted else 0
        local = 1
        if adapted:
            local = group["trust"] * weight.norm() / (gradient.norm() + decay * weight.norm())
        velocity = self.kept(state, "velocity", weight)
        velocity.mul_(group["momentum"]).add_(group["lr"] * local * (gradient + decay * weight))
        return -velocity


class Lamb(Paper):
    """You et al., ICLR 2020, arXiv 1904.00962, algorithm 2, phi(z) = z."""

    def __init__(self, parameters, rate, beta1=0.9, beta2=0.999, epsilon=1e-6, decay=0.01):
        super().__init__(parameters, rate, decay, beta1=beta1, beta2=beta2, epsilon=epsilon)

    def move(self, weight, gradient, adapted, state, group):
        beta1, beta2 = group["beta1"], group["beta2"]
        m, v = self.kept(state, "m", weight), self.kept(state, "v", weight)
        m.mul_(beta1).add_((1 - beta1) * gradient)
        v.mul_(beta2).add_((1 - beta2) * gradient**2)
        m_hat, v_hat = m / (1 - beta1**state["steps"]), v / (1 - beta2**state["steps"])
        direction = m_hat / (v_hat.sqrt() + group["epsilon"])
        if adapted:
            direction += group["decay"] * weight
            direction *= weight.norm() / direction.norm()
        return -group["lr"] * direction


PAPER_OPTIMIZERS = {"sum": Sum, "lars": Lars, "lamb": Lamb}
