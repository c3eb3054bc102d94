"""Calls as programs write them, in every spelling, beside PyTorch: one text, the same result.

In a text `t` is the library, F its nn.functional, `x` a 2 by 3 float tensor and `i` one of ints.
"""

import warnings

import numpy as np
import pytest

import weft

CALLS = {
    "reductions_by_numpys_names": r"""
t.sum(x, axis=0); t.sum(x, axis=0, keepdims=True); x.sum(axis=(0,1)); x.mean(axis=1,
keepdims=True); x.max(axis=1); t.max(input=x, dim=1); x.std(axis=0); x.argmax(axis=1)
""",
    "joining": r"""
t.cat([x,x], axis=1); t.concatenate([x,x], axis=0); t.stack(tensors=[x,x], dim=-1);
t.concat((x,x),1); t.cat(tensors=(x,x)); t.cat([x, t.empty(0)]); t.cat([x, t.tensor([])],
1)
""",
    "splitting": r"""
t.split(x, [1,1]); t.split(tensor=x, split_size_or_sections=1); x.split(split_size=1,
dim=1); x.split((1,2),dim=-1); t.chunk(x,2,-1); t.chunk(input=x,chunks=5);
x.tensor_split(2,1)
""",
    "views_by_every_spelling": r"""
x.view(np.int64(3),2); x.view(t.tensor(3),2); x.view(t.Size([3,2])); x.view([3,2]);
x.view(size=(3,2)); x.reshape(shape=(3,2)); x.reshape(np.array([3,2])); x.reshape(-1);
x.reshape(()); x[0,0].reshape(()); x.view(-1,1,3)
""",
    "layouts": r"""
x.permute(1,0); x.permute((1,0)); x.permute(dims=(1,0)); t.permute(x,dims=[1,0]);
x.transpose(dim0=0,dim1=1); x.transpose(-1,0); x.t(); x.T; x.swapaxes(0,1);
t.movedim(x,0,1); x.flatten(start_dim=0); x.unflatten(1,(3,1)); x.squeeze();
x.squeeze((0,1)); x.unsqueeze(-1); x.expand(2,2,3); x.expand(-1,-1); x.repeat(2,1);
x.repeat((1,2)); x.tile((2,)); x.repeat_interleave(2,dim=1)
""",
    "names_of_what_is_passed_by_place_mostly": r"""
x.size(dim=1); x.size(dim=-1); x.stride(dim=0); x.stride(axis=1); x.swapaxes(axis0=0,axis1=1);
x.clone().resize_(size=(3,2)); x.sum_to_size(size=(1,3)); x.sum_to_size(1,3);
t.promote_types(type1=t.int64,type2=t.float32); t.linalg.matrix_rank(x,0.1);
t.linalg.matrix_rank(x,t.tensor([0.1,100.])); t.linalg.pinv(x,0.1); t.tril_indices(2,10**18)
""",
    "names_that_the_documents_do_not_have": r"""
t.hsplit(x,sections=3); t.hsplit(input=x,indices=[1]); x.vsplit(sections=2);
x[None].dsplit(indices=[1]); x.tensor_split(sections=2,dim=1); t.tensor_split(x,indices=[1]);
t.tensor_split(x,tensor_indices_or_sections=t.tensor([1])); t.isin(element=1,test_elements=x);
t.isin(x,test_element=1); t.result_type(tensor=x,other=1); t.result_type(scalar1=1,scalar2=2.5);
t.kron(x1=x,x2=x); t.cov(x=x); t.frexp(a=x); t.linalg.lstsq(input=x,b=x)[0];
t.linalg.tensorsolve(t.eye(2)+1,other=t.ones(2));
t.cholesky_solve(input=t.ones(2,1),input2=t.eye(2)); t.orgqr(x.t(),input2=t.ones(2));
t.ormqr(t.eye(2),input2=t.ones(2),input3=t.eye(2)); t.zeros(2).copy_(other=t.ones(2));
t.func.jvp(lambda a: a*2,(x,),(x,),strict=True)
""",
    "counts_alone": r"""
t.repeat_interleave(t.tensor([2,0,1])); t.repeat_interleave(repeats=t.tensor([2,1],dtype=t.int32));
t.repeat_interleave(t.tensor([2,1]),output_size=3); t.repeat_interleave(t.tensor([],dtype=t.int64))
""",
    "tensors_of_one_element_among_numbers": r"""
t.tensor([x[0,:1],x[1,:1]]); t.tensor([x[0,:1],2]); t.tensor([2,x[:1,:1]]); t.tensor([[x[0,0]]]);
t.tensor([[x[:1,:1],1.5]])
""",
    "products_of_complex_numbers": r"""
t.vdot(t.tensor([1+2j]),t.tensor([3-1j])); t.tensor([1+2j,1j]).vdot(t.tensor([3-1j,2]));
t.addmm(x*1j,x[:,:2]*1j,x[:2]+1j,beta=1j,alpha=2+1j); t.addmm(x*1j,x[:,:2]*1j,x[:2]+1j,beta=0)
""",
    "named_results_of_mapped_functions": r"""
t.vmap(lambda a: a.max(0))(x); t.vmap(lambda a: t.sort(a),out_dims=1)(x)
""",
    "pools_of_an_infinite_norm": r"""
F.lp_pool1d(x-1,float('inf'),2); F.lp_pool2d(x[None]-1,float('-inf'),2,1,True)
""",
    "indexing": r"""
x[np.int64(1)]; x[t.tensor(1)]; x[[0,1],[1,2]]; x[...,0]; x[None]; x[:, None, :]; x[0:10];
x[::2]; x[:, ::2]; x[t.tensor([True,False])]; x[x>0]; x[np.array([0,1])]; x[(0,1)];
x[[True,False]]; x[-1]; x[1:1]; x[t.tensor([[0,1],[1,0]])]; x[:, [0,2]]; x[range(2)];
x[0][1]; x[slice(None),1]; x[True]; x[False]; x[:,:,None,None].shape
""",
    "wrong_indices": r"""
x[2]; x[0,3]; x[0,0,0]; x[::-1]; x[1.0]; x['a']; x[[0,5]]; x[t.tensor([True,False,True])]
""",
    "numbers_and_arrays": r"""
x + np.float64(2); np.float64(2) * x; x * np.array([1.,2.,3.],dtype='f');
np.array([1.,2.,3.]) * x; x + [1,2,3]; 2 ** x; x // 2; x % 0.7; -x; abs(x); ~(x>0); (x>0)
& (x<1); (x>0).sum(); x == None; x != None; x == 'a'; x is None; 1 - x; x / 0; x // 0;
divmod(x, 2); round(x); x @ x.T; x @ np.ones(3,dtype='f')
""",
    "as_python_objects": r"""
len(x); list(x)[0]; [float(v) for v in x[0]]; tuple(x.shape); x.shape[0]*2; x.shape ==
(2,3); x.shape == [2,3]; x.size(0); x.size(-1); x.size(); x.numel(); x.dim(); x.ndim; 1.5
in x; x.sum() > 0; bool(x.sum()); bool(x); float(x); int(x[0,0]); hash(x) is not None;
x.__len__(); iter(x[0,0]); len(x[0,0])
""",
    "creation": r"""
t.zeros(2,3).shape; t.zeros((2,3)).shape; t.zeros([2,3]).shape; t.zeros(size=(2,3)).shape;
t.zeros(t.Size([2])).shape; t.zeros(np.int64(2)).shape; t.zeros(2, dtype=int); t.zeros(2,
dtype=float); t.zeros(2,dtype=bool); t.zeros(()); t.zeros(0); t.ones(2,1.5); t.zeros(-1);
t.zeros('a'); t.full((2,),7); t.full((2,),True); t.full([1],1.5); t.arange(3.);
t.arange(0,1,0.3); t.arange(5,1,-2); t.arange(0); t.arange(1,0);
t.arange(3,dtype=t.float32); t.linspace(0,1,1); t.eye(2,3); t.tensor([]); t.tensor(3);
t.tensor([[1,2],[3]]); t.tensor([1,2.5]); t.tensor([True,2]); t.tensor('a');
t.tensor(np.float32(3)); t.tensor([x[0,0],x[0,1]]); t.tensor(range(3));
t.tensor((1,(2,))); t.tensor([[]]).shape; t.as_tensor([1,2]); t.tensor([1,2],dtype=float);
t.tensor(x); t.tensor([np.array([1,2]),np.array([3,4])])
""",
    "choices": r"""
t.where(x>0); t.where(x>0,x,0); t.where(x>0,1,0); t.where(x>0,x,t.tensor(0.));
x.where(x>0,0.); t.clamp(x,min=0); t.clamp(x,0,1); x.clip(0); t.clamp(x);
x.clamp(max=t.tensor(0.5)); t.clamp(x,1,0)
""",
    "order_and_statistics": r"""
t.nonzero(x>0); (x>0).nonzero(as_tuple=True); t.topk(x,2); x.topk(k=2,dim=0);
x.sort(descending=True); x.sort(0); t.sort(x,dim=1,descending=True,stable=True);
x.argsort(dim=0); x.kthvalue(2); x.median(); x.median(1); x.mode(); x.unique();
t.unique(i,return_inverse=True,return_counts=True); i.unique(sorted=True,dim=0);
t.bincount(i.flatten()); x.cumsum(0); x.cumprod(dim=1); x.diff(); x.max(); x.max(1);
x.max(1)[1]; x.max(dim=1,keepdim=True).values; t.maximum(x,x*0); t.max(x,x*0);
x.amax((0,1)); x.any(); x.all(1); x.prod(); x.norm(); x.norm(1); x.norm(p=2,dim=1);
x.norm(float('inf')); x.norm(dim=0); x.var(unbiased=False); x.var(0,unbiased=False);
x.std(dim=1,keepdim=True); t.var_mean(x,1); x.logsumexp(1); x.softmax(1);
x.softmax(-1,dtype=t.float64); t.softmax(x,dim=0); x.log_softmax(dim=1); x.sigmoid();
x.exp().log(); x.pow(2); x.square(); x.rsqrt(); x.sign(); x.floor(); x.round(decimals=1);
x.trunc(); x.frac(); x.erf(); x.lerp(x*2,0.5); x.addmm(x,t.ones(3,3)); x.mm(x.T);
x.matmul(x.T); t.mv(x,x[0]); t.dot(x[0],x[1]); t.outer(x[0],x[1]);
t.bmm(x[None],x.T[None]); t.einsum('ij,kj->ik',x,x); t.einsum('ij->j',[x]);
t.tensordot(x,x,dims=2); t.tensordot(x,x,([1],[1]));
t.baddbmm(t.zeros(1,2,2),x[None],x.T[None])
""",
    "places": r"""
x.gather(1,i); x.gather(dim=1,index=i); x.scatter(1,i,0.); x.scatter(1,i,x);
x.scatter_add(1,i,x); x.index_select(0,t.tensor([1]));
t.index_select(x,1,t.tensor([0,0])); x.masked_fill(x>0,0); x.masked_select(x>0);
x.take(t.tensor([0,5])); x.index_add(0,t.tensor([0]),x[:1]);
x.index_fill(1,t.tensor([0]),9.); x.index_put((t.tensor([0]),t.tensor([1])),t.tensor(5.));
x.take_along_dim(i,1); x.put(t.tensor([0]),t.tensor([1.]));
x.scatter_reduce(1,i,x,'mean'); x.scatter_reduce(1,i,x,reduce='amax',include_self=False);
t.searchsorted(t.tensor([1.,2.]),x); t.bucketize(x,t.tensor([0.,1.]))
""",
    "shapes_types_and_methods": r"""
x.tril(); x.triu(1); t.tril_indices(3,3); x.diag(); t.diag(x[0]); t.diag_embed(x);
x.diagonal(offset=1); x.trace(); t.trace(x@x.T); x.flip(0); x.flip((0,1)); t.flip(x,[1]);
x.roll(1); x.roll((1,2),(0,1)); x.rot90(); t.meshgrid(x[0],x[1],indexing='ij');
t.cartesian_prod(x[0],x[1]); t.combinations(x[0]); x.unfold(1,2,1);
t.cross(x,x*2+1,dim=1); t.cdist(x,x); t.kron(x,x); x.narrow(1,0,2); x.select(1,0);
x.unbind(1); x.ravel(); t.atleast_2d(x[0]); t.hstack((x,x)); t.vstack((x,x));
t.dstack((x,x)); t.block_diag(x,x); t.broadcast_to(x,(2,2,3));
t.broadcast_tensors(x,x[0]); x.type(t.float64); x.type('torch.DoubleTensor'); x.type();
x.to('cpu'); x.to(t.float16); x.to(i); x.to(dtype=t.int32); x.float() is x; x.cpu() is x;
x.to(t.float32) is x; x.double().dtype; x.long(); x.int(); x.bool(); x.half();
x.type_as(i); x.is_floating_point(); x.element_size(); x.stride(); x.T.is_contiguous();
x.contiguous() is x; x.T.contiguous().stride(); x.storage_offset();
x.is_contiguous(memory_format=t.contiguous_format); x.new_zeros(2);
x.new_ones((2,),dtype=t.int64); x.new_tensor([1]); x.new_full((1,),3); x.new_empty(0);
x.zero_(); x.fill_(2); x.copy_(t.ones(3)); x.add_(1).mul_(2); x.clamp_(0,1); x.sub_(x);
x.div_(2,rounding_mode='floor'); x.uniform_().shape; x.resize_(1,2).shape;
x.squeeze_().shape; x.t_().shape; x.unsqueeze_(0).shape; x.detach().requires_grad;
x.requires_grad_().requires_grad; x.grad; x.data; x.is_leaf; x.item(); x[0,0].item();
x.tolist(); x.numpy().dtype; x.isnan().any(); x.isclose(x); x.allclose(x+1e-9);
x.equal(x); t.is_tensor(x); t.numel(x); t.is_floating_point(x);
x.index_copy(0,t.tensor([0]),x[:1]); x.nelement(); x.expand_as(t.ones(4,2,3)).shape;
x.view_as(t.ones(3,2)); x.reshape_as(t.ones(3,2)); x.bernoulli(0.0); t.histc(x,4,-2,2);
x.quantile(0.5); x.quantile(t.tensor([0.1,0.9]),dim=1); x.nanmean(); x.nansum();
x.count_nonzero(); x.logcumsumexp(1); x.cummax(1); x.renorm(2,0,1.);
x.heaviside(t.tensor(0.5)); x.hypot(x); x.atan2(x); x.fmod(0.3); x.remainder(-0.3);
x.logical_not(); x.logical_and(x>0); x.ne(0); x.gt(0); x.le(x); x.eq(1.25); t.eq(x,x);
t.equal(x,x); t.result_type(x,1); t.nan_to_num(x/0); t.isin(i,t.tensor([1]));
t.bitwise_and(i,1); i<<1; i.bitwise_not(); t.gcd(i,i); i.float().mean(); i.mean(); i/2;
i//2; i.sum(dtype=t.float32); i.float().div(2,rounding_mode='trunc'); t.lcm(i,i*2);
t.polygamma(1,x.abs()+1); t.logit(t.sigmoid(x)); t.special.expit(x); t.angle(x); t.real(x)
""",
    "functional": r"""
F.relu(x,inplace=False); F.softmax(x); F.softmax(x,-1); F.log_softmax(x,1);
F.gelu(x,approximate='tanh'); F.cross_entropy(x,t.tensor([0,2]));
F.cross_entropy(x,t.tensor([0,2]),reduction='sum'); F.cross_entropy(x,t.tensor([0,-100]));
F.cross_entropy(x,t.tensor([0,3])); F.cross_entropy(x,t.tensor([0.,1.]));
F.cross_entropy(x,x.softmax(1)); F.nll_loss(x.log_softmax(1),t.tensor([0,2]));
F.mse_loss(x,x*2); F.mse_loss(x,x[0]); F.mse_loss(x,x,reduction='none');
F.mse_loss(x,x,reduction='x'); F.l1_loss(x,x*0); F.smooth_l1_loss(x,x*0,beta=0.5);
F.binary_cross_entropy(x.sigmoid(),(x>0).float()); F.binary_cross_entropy(x,x);
F.binary_cross_entropy_with_logits(x,(x>0).float(),pos_weight=t.tensor(2.));
F.kl_div(x.log_softmax(1),x.softmax(1),reduction='batchmean'); F.dropout(x,0.5,False);
F.dropout(x,1.5); F.linear(x,t.ones(2,3)); F.linear(x,t.ones(2,4)); F.normalize(x,dim=1);
F.normalize(x); F.layer_norm(x,(3,)); F.layer_norm(x,[2]); F.one_hot(i); F.one_hot(i,4);
F.pad(x,(1,1)); F.pad(x,(1,1,2,0),value=3); F.pad(x,(1,));
F.pad(x[None],(1,1),mode='reflect'); F.pad(x[None],(3,1),mode='reflect');
F.embedding(i,t.ones(5,2)).shape; F.embedding(i,t.ones(1,2)); F.cosine_similarity(x,x*2);
F.cosine_similarity(x,x,dim=0); F.pairwise_distance(x,x*2);
F.interpolate(x[None],scale_factor=2);
F.interpolate(x[None,None],size=(4,4),mode='bilinear',align_corners=True);
F.interpolate(x[None,None],size=4); F.max_pool2d(x[None,None],2);
F.max_pool2d(x[None],2,stride=1); F.avg_pool2d(x[None],(1,3));
F.max_pool2d(x[None,None],5); F.conv2d(x[None,None],t.ones(1,1,2,2));
F.conv2d(x[None,None],t.ones(1,2,2,2)); F.conv1d(x[None],t.ones(1,2,2),padding='same');
F.conv2d(x,t.ones(1,1,2,2)); F.unfold(x[None,None],(2,2));
F.adaptive_avg_pool2d(x[None],1); F.adaptive_avg_pool2d(x[None],(None,1)); F.elu(x,0.5);
F.leaky_relu(x,0.2); F.selu(x); F.silu(x); F.mish(x); F.hardtanh(x,-0.5,0.5);
F.softplus(x,2); F.softsign(x); F.tanh(x); F.sigmoid(x); F.glu(t.cat([x,x],1));
F.logsigmoid(x); F.threshold(x,0.1,20); F.prelu(x,t.tensor([0.1])); F.rrelu(x,0.1,0.1);
F.gumbel_softmax(x,hard=True).sum(); F.batch_norm(x,t.zeros(3),t.ones(3));
F.batch_norm(x,None,None,training=True); F.group_norm(t.ones(1,4,2),2);
F.scaled_dot_product_attention(x[None],x[None],x[None]); F.triplet_margin_loss(x,x+1,x-1);
F.margin_ranking_loss(x,x,x.sign()); F.hinge_embedding_loss(x,x.sign());
F.huber_loss(x,x*0); F.multi_margin_loss(x,t.tensor([0,1]));
F.ctc_loss(x.log_softmax(1)[:,None].expand(2,1,3),t.tensor([[1]]),t.tensor([2]),t.tensor([1]));
F.grid_sample(x[None,None],t.zeros(1,1,1,2),align_corners=False);
F.affine_grid(t.ones(1,2,3),(1,1,2,2),align_corners=False);
F.pixel_shuffle(t.arange(8.).reshape(1,4,1,2),2); F.gaussian_nll_loss(x,x*0,x.abs()+1);
F.poisson_nll_loss(x,x.abs()); F.tanhshrink(x);
F.multilabel_soft_margin_loss(x,(x>0).float()); F.bilinear(x,x,t.ones(1,3,3));
F.feature_alpha_dropout(x,0.0); F.lp_pool1d(x[None].abs(),2,2);
F.upsample(x[None],scale_factor=2)
""",
}
LAYOUT = """
y.stride(); y.is_contiguous(); y.is_contiguous(memory_format=t.channels_last); (y + 1).stride()
y.contiguous().stride(); y.contiguous(memory_format=t.channels_last) is y; t.empty_like(y).stride()
t.nn.Conv2d(2, 3, 2).to(memory_format=t.channels_last).weight.stride(); y.double().stride()
t.ones(2).contiguous(memory_format=t.channels_last); t.ones(2, 3).contiguous(memory_format=3)
t.zeros_like(y, memory_format=t.contiguous_format).stride(); y.clone().stride(); y.sum(1).stride()
t.autograd.grad((y * y).sum(), z)[0].stride(); y.float(memory_format=t.contiguous_format).stride()
"""
RESULTS = """
t.mode(i); t.nanmedian(x, 0); t.aminmax(x); t.aminmax(x).max; t.frexp(x); t.histogram(x, 2)
t.slogdet(x[:, :2]); t.qr(t.eye(2)).R; t.linalg.qr(t.eye(2)).R; t.svd(t.eye(1)); t.geqrf(t.eye(1))
t.linalg.eigh(t.eye(1)); t.linalg.inv_ex(t.eye(1)); t.kthvalue(i, 2); t.cummax(i, 1)
np.sin(x); np.add(x, 1); np.float64(2) * x; x * np.ones(3); x[0] @ np.ones(3); np.maximum(x, 0) > 0
np.array([1.0, 2.0, 3.0]) * x; np.sum(x); np.ones(3) + x; x > np.zeros(3); np.abs(x).dtype
"""


def shown(lib, text):
    x = lib.tensor([[0.5, -1.5, 2.5], [1.25, 0.75, -0.25]])
    z = lib.arange(24.0).reshape(1, 2, 3, 4).requires_grad_()
    names = {"t": lib, "F": lib.nn.functional, "np": np, "x": x, "z": z}
    names["i"] = lib.tensor([[0, 1, 0], [2, 0, 1]])
    if "y" in text:
        names["y"] = z.to(memory_format=lib.channels_last)
    lib.manual_seed(3)
    try:
        return str(eval(text, names))
    except Exception as error:  # noqa: BLE001
        return f"!{next(k.__name__ for k in type(error).__mro__ if k.__module__ == 'builtins')}"


def compare(torch, texts):
    found = []
    for text in (s.strip() for s in texts.replace("\n", " ").split(";")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got, expected = shown(weft, text), shown(torch, text)
        same = got == expected or (got, expected) == ("!NotImplementedError", "!RuntimeError")
        if not same:
            found.append(f"{text}:\n{got}\n  for\n{expected}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", CALLS)
def test_every_spelling_gives_pytorchs_result(torch, kind):
    compare(torch, CALLS[kind])


def test_channels_last_is_a_layout(torch):
    compare(torch, LAYOUT)


def test_results_have_names_and_numpys_functions_give_tensors(torch):
    compare(torch, RESULTS)
