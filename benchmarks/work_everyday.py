"""Lines of programs as people write them every day, on small data: losses, layers and steps by hand, geometry, decoding, utilities.

Each kind is some lines that prepare it, and after `>` those that are measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from work import KINDS

SHAPES = {
    "means of colours": ((256, 256, 3), (3,)), "numbers of rows": ((8000, 4), (8000, 1)), "short rows": ((8000, 5), (5,)),
    "boxes": ((100, 1, 2), (50, 2)), "maps of few pixels": ((32, 512, 2, 2), (512, 1, 1)), "scores and a mask": ((16, 12, 64, 64), (16, 1, 1, 64)),
    "outer": ((512, 1), (1, 16)), "corners": ((20, 1, 20, 1), (1, 20, 1, 20)),
}  # fmt: skip
FOLDED = {
    "rows of 5": ((8000, 5), 1),
    "rows of 64": ((32, 3, 64, 64), 3),
    "three channels": ((32, 3, 64, 64), 1),
    "columns": ((200, 50), 0),
}
FOLDS = ["sum", "amax", "argmax", "var", "prod", "logsumexp", "cumsum", "softmax", "sort", "median"]

LINES = """
# mlp adam step
net=nn.Sequential(nn.Linear(20,64),nn.ReLU(),nn.Linear(64,64),nn.ReLU(),nn.Linear(64,3)); o=T.optim.Adam(net.parameters()); x=T.rand(32,20); y=T.randint(0,3,(32,))
> o.zero_grad(); F.cross_entropy(net(x),y).backward(); o.step()
# mlp sgd mom step
net=nn.Sequential(nn.Linear(20,64),nn.Tanh(),nn.Linear(64,1)); o=T.optim.SGD(net.parameters(),lr=.01,momentum=.9); x=T.rand(32,20); y=T.rand(32,1)
> o.zero_grad(); F.mse_loss(net(x),y).backward(); o.step()
# adamw clip step
net=nn.Sequential(nn.Linear(20,64),nn.GELU(),nn.LayerNorm(64),nn.Linear(64,5)); o=T.optim.AdamW(net.parameters()); x=T.rand(32,20); y=T.randint(0,5,(32,))
> o.zero_grad(); F.cross_entropy(net(x),y).backward(); nn.utils.clip_grad_norm_(net.parameters(),1.); o.step()
# ddpm step
net=nn.Sequential(nn.Conv2d(3,16,3,padding=1),nn.SiLU(),nn.GroupNorm(4,16),nn.Conv2d(16,3,3,padding=1)); a=T.linspace(1,.1,100); x=T.rand(8,3,16,16)
> t=T.randint(0,100,(8,)); e=T.randn_like(x); z=a[t].sqrt()[:,None,None,None]*x+(1-a[t]).sqrt()[:,None,None,None]*e; F.mse_loss(net(z),e).backward()
# vae step
enc=nn.Linear(64,16); dec=nn.Linear(8,64); x=T.rand(32,64)
> h=enc(x); mu,lv=h.chunk(2,-1); z=mu+T.randn_like(mu)*(lv/2).exp(); (F.binary_cross_entropy_with_logits(dec(z),x,reduction='sum')-.5*(1+lv-mu.pow(2)-lv.exp()).sum()).backward()
# gradient penalty
D=nn.Sequential(nn.Linear(16,32),nn.Tanh(),nn.Linear(32,1)); x=T.rand(32,16).requires_grad_()
> g,=T.autograd.grad(D(x).sum(),x,create_graph=True); ((g.norm(dim=1)-1)**2).mean().backward()
# reinforce
net=nn.Sequential(nn.Linear(4,32),nn.ReLU(),nn.Linear(32,2)); x=T.rand(1,4)
> d=T.distributions.Categorical(logits=net(x)); a=d.sample(); (-d.log_prob(a)*2.).sum().backward()
# normal dist
mu=T.rand(32,4).requires_grad_(); s=T.rand(32,4).requires_grad_()
> d=T.distributions.Normal(mu,s.exp()); a=d.rsample(); d.log_prob(a).sum(-1).mean().backward()
# ppo loss
lp=T.rand(256).requires_grad_(); old=T.rand(256); adv=T.randn(256)
> q=(lp-old).exp(); (-T.min(q*adv,q.clamp(.8,1.2)*adv).mean()).backward()
# dqn loss
net=nn.Linear(4,2); x=T.rand(64,4); a=T.randint(0,2,(64,)); y=T.rand(64)
> F.smooth_l1_loss(net(x).gather(1,a[:,None]).squeeze(1),y).backward()
# gae loop
rw=T.rand(50); v=T.rand(51)
> adv=0.; out=[]; [out.append(adv:=rw[t]+.99*v[t+1]-v[t]+.95*.99*adv) for t in range(49,-1,-1)]; T.stack(out)
# discounted loop item
rw=[1.0]*50
> R=0.; out=[]; [out.insert(0,R:=x+.99*R) for x in rw]; y=T.tensor(out); (y-y.mean())/(y.std()+1e-9)
# attention mask causal
q=T.rand(2,4,32,16).requires_grad_()
> s=(q@q.transpose(-2,-1))/4; k=T.triu(T.ones(32,32,dtype=T.bool),1); (s.masked_fill(k,float('-inf')).softmax(-1)@q).sum().backward()
# pos encoding
d=64
> p=T.arange(100)[:,None]; t=T.exp(T.arange(0,d,2)*(-9.21/d)); e=T.zeros(100,d); e[:,0::2]=T.sin(p*t); e[:,1::2]=T.cos(p*t)
# rnn loop
c=nn.RNNCell(8,16); x=T.rand(20,4,8)
> h=T.zeros(4,16); hs=[h:=c(x[t],h) for t in range(20)]; T.stack(hs).sum().backward()
# lstm cell loop
c=nn.LSTMCell(8,16); x=T.rand(20,4,8)
> h=(T.zeros(4,16),T.zeros(4,16)); hs=[(h:=c(x[t],h))[0] for t in range(20)]; T.stack(hs).sum().backward()
# packed lstm
l=nn.LSTM(8,16,batch_first=True); x=T.rand(4,20,8); n=T.tensor([20,15,10,5])
> p=nn.utils.rnn.pack_padded_sequence(x,n,batch_first=True); nn.utils.rnn.pad_packed_sequence(l(p)[0],batch_first=True)[0].sum().backward()
# pad_sequence
xs=[T.rand(n,8) for n in range(5,37)]
> nn.utils.rnn.pad_sequence(xs,batch_first=True)
# greedy decode
net=nn.Linear(32,100); e=nn.Embedding(100,32)
> t=T.tensor([1]); [t:=net(e(t)).argmax(-1) for _ in range(10)]
# topk sample
x=T.randn(4,1000)
> v,i=T.topk(x,50); p=T.multinomial(F.softmax(v,-1),1); i.gather(1,p)
# topp sample
x=T.randn(4,1000)
> s,i=T.sort(x,descending=True); p=s.softmax(-1).cumsum(-1); k=p>.9; k[:,1:]=k[:,:-1].clone(); k[:,0]=False; x.masked_fill(k.scatter(1,i,k),float('-inf'))
# iou
a=T.rand(100,4); b=T.rand(50,4)
> lt=T.max(a[:,None,:2],b[:,:2]); rb=T.min(a[:,None,2:],b[:,2:]); w=(rb-lt).clamp(min=0); w[...,0]*w[...,1]
# nms loop
b=T.rand(50,4); s=T.rand(50)
> i=s.argsort(descending=True); keep=[int(j) for j in i[:10]]; b[keep]
# image aug
x=T.rand(3,64,64)
> y=x.flip(-1)[:,4:60,4:60]; y=(y-T.tensor([.5,.4,.3])[:,None,None])/T.tensor([.2,.2,.2])[:,None,None]
# mixup
x=T.rand(32,3,16,16); y=F.one_hot(T.randint(0,10,(32,)),10).float()
> i=T.randperm(32); x2=.3*x+.7*x[i]; y2=.3*y+.7*y[i]
# accuracy
x=T.rand(128,10); y=T.randint(0,10,(128,))
> (x.argmax(1)==y).float().mean().item()
# topk accuracy
x=T.rand(128,100); y=T.randint(0,100,(128,))
> _,p=x.topk(5,1,True,True); p.t().eq(y.view(1,-1).expand_as(p.t()))[:5].reshape(-1).float().sum(0).item()
# confusion
p=T.randint(0,10,(1000,)); y=T.randint(0,10,(1000,))
> T.bincount(p*10+y,minlength=100).reshape(10,10)
# dataloader
ds=T.utils.data.TensorDataset(T.rand(256,8),T.randint(0,3,(256,))); dl=T.utils.data.DataLoader(ds,batch_size=32,shuffle=True)
> [x.sum() for x,y in dl]
# dataloader list
class D(T.utils.data.Dataset):
    def __len__(s): return 128
    def __getitem__(s,i): return T.full((8,),float(i)),i
dl=T.utils.data.DataLoader(D(),batch_size=32)
> [x.sum() for x,y in dl]
# state dict
net=nn.TransformerEncoderLayer(32,4,64)
> net.load_state_dict(net.state_dict())
# deepcopy
import copy; net=nn.TransformerEncoderLayer(32,4,64)
> copy.deepcopy(net)
# make net
> nn.Sequential(nn.Linear(20,64),nn.ReLU(),nn.Linear(64,64),nn.BatchNorm1d(64),nn.Linear(64,3))
# params loop
net=nn.TransformerEncoderLayer(32,4,64)
> sum(p.numel() for p in net.parameters() if p.requires_grad)
# grad norm
net=nn.TransformerEncoderLayer(32,4,64); net(T.rand(5,2,32)).sum().backward()
> T.stack([p.grad.norm() for p in net.parameters()]).norm().item()
# weight decay reg
net=nn.Sequential(nn.Linear(20,64),nn.ReLU(),nn.Linear(64,3))
> sum((p**2).sum() for p in net.parameters()).backward()
# ema
a=nn.Linear(64,64); b=nn.Linear(64,64)
> with T.no_grad(): [p.mul_(.99).add_(q,alpha=.01) for p,q in zip(a.parameters(),b.parameters())]
# tensor list
xs=[[float(i*j) for i in range(10)] for j in range(10)]
> T.tensor(xs)
# tolist
x=T.rand(100,10)
> x.tolist()
# repr small
x=T.rand(3,4)
> repr(x)
# iterate rows
x=T.rand(50,8)
> [row.sum() for row in x]
# unbind split
x=T.rand(12,8)
> [a+b for a,b in zip(x.split(4),x.chunk(3))]
# kmeans step
x=T.rand(500,2); c=T.rand(8,2)
> d=T.cdist(x,c); l=d.argmin(1); c2=T.stack([x[l==k].mean(0) for k in range(8)])
# pca
x=T.rand(200,20)
> y=x-x.mean(0); u,s,v=T.linalg.svd(y,full_matrices=False); y@v[:2].T
# lin reg
x=T.rand(200,5); y=T.rand(200,1)
> T.linalg.lstsq(x,y).solution
# ridge
x=T.rand(200,5); y=T.rand(200,1)
> T.linalg.solve(x.T@x+.1*T.eye(5),x.T@y)
# gp
x=T.rand(50,1); y=T.rand(50)
> K=T.exp(-.5*T.cdist(x,x)**2)+.01*T.eye(50); L=T.linalg.cholesky(K); T.cholesky_solve(y[:,None],L)
# gaussian nll
mu=T.rand(64,4).requires_grad_(); v=T.rand(64,4).requires_grad_(); y=T.rand(64,4)
> F.gaussian_nll_loss(mu,y,v.exp()).backward()
# mdn
p=T.rand(64,5).requires_grad_(); mu=T.rand(64,5).requires_grad_(); s=T.rand(64,5).requires_grad_(); y=T.rand(64,1)
> (-T.logsumexp(F.log_softmax(p,1)-s-.5*((y-mu)/s.exp())**2,1)).mean().backward()
# neural ode rk4
f=nn.Sequential(nn.Linear(2,16),nn.Tanh(),nn.Linear(16,2)); x=T.rand(32,2)
> for _ in range(4): k1=f(x); k2=f(x+.05*k1); k3=f(x+.05*k2); k4=f(x+.1*k3); z=x+.1/6*(k1+2*k2+2*k3+k4)
# pinn
f=nn.Sequential(nn.Linear(1,16),nn.Tanh(),nn.Linear(16,1)); x=T.rand(64,1).requires_grad_()
> u=f(x); du,=T.autograd.grad(u.sum(),x,create_graph=True); d2,=T.autograd.grad(du.sum(),x,create_graph=True); ((d2+u)**2).mean().backward()
# maml inner
w=T.rand(8,4).requires_grad_(); x=T.rand(16,8); y=T.rand(16,4)
> l=((x@w-y)**2).mean(); g,=T.autograd.grad(l,w,create_graph=True); w2=w-.1*g; ((x@w2-y)**2).mean().backward()
# jacobian
f=lambda x:(x**2).sum(-1,keepdim=True)*x; x=T.rand(5)
> T.autograd.functional.jacobian(f,x)
# hessian
f=lambda x:(x**3).sum(); x=T.rand(5)
> T.autograd.functional.hessian(f,x)
# func grad
f=lambda w,x:((x@w)**2).mean(); w=T.rand(4); x=T.rand(8,4)
> T.func.grad(f)(w,x)
# vmap
f=lambda a,b:(a*b).sum(); x=T.rand(64,8); y=T.rand(64,8)
> T.vmap(f)(x,y)
# custom function
class Fn(T.autograd.Function):
    @staticmethod
    def forward(ctx,x): ctx.save_for_backward(x); return x*x
    @staticmethod
    def backward(ctx,g): x,=ctx.saved_tensors; return 2*x*g
x=T.rand(10).requires_grad_()
> Fn.apply(x).sum().backward()
# hooks
l=nn.Linear(8,8); h=l.register_forward_hook(lambda mod,i,o:None); x=T.rand(4,8)
> l(x).sum().backward()
# checkpoint
l=nn.Linear(8,8); x=T.rand(4,8).requires_grad_()
> T.utils.checkpoint.checkpoint(l,x,use_reentrant=False).sum().backward()
# amp
l=nn.Linear(64,64); x=T.rand(16,64)
> with T.autocast('cpu',dtype=T.bfloat16): l(x)
# save load
import io; net=nn.Linear(64,64)
> b=io.BytesIO(); T.save(net.state_dict(),b); b.seek(0); T.load(b)
# scheduler
o=T.optim.SGD([T.rand(3).requires_grad_()],lr=.1); s=T.optim.lr_scheduler.CosineAnnealingLR(o,10**9)
> s.step()
# gcn layer
w=T.rand(16,16).requires_grad_(); x=T.rand(100,16); e=T.randint(0,100,(2,400))
> d=T.zeros(100).scatter_add_(0,e[1],T.ones(400)).clamp(min=1).rsqrt(); (T.zeros(100,16).index_add_(0,e[1],(x@w)[e[0]]*(d[e[0]]*d[e[1]])[:,None])).relu().sum().backward()
# sparse mm
i=T.randint(0,100,(2,400)); a=T.sparse_coo_tensor(i,T.rand(400),(100,100)).coalesce(); x=T.rand(100,16)
> T.sparse.mm(a,x)
# box convert
b=T.rand(200,4)
> x,y,w,h=b.unbind(-1); T.stack([x-.5*w,y-.5*h,x+.5*w,y+.5*h],-1)
# se3
q=F.normalize(T.rand(200,4),dim=-1)
> w,x,y,z=q.unbind(-1); T.stack([1-2*(y*y+z*z),2*(x*y-z*w),2*(x*z+y*w),2*(x*y+z*w),1-2*(x*x+z*z),2*(y*z-x*w),2*(x*z-y*w),2*(y*z+x*w),1-2*(x*x+y*y)],-1).reshape(-1,3,3)
# pointnet
l=nn.Conv1d(3,32,1); x=T.rand(8,3,128)
> l(x).relu().max(-1)[0].sum().backward()
# nerf
s=T.rand(64,32); c=T.rand(64,32,3)
> a=1-T.exp(-s*.1); t=T.cumprod(T.cat([T.ones(64,1),1-a+1e-10],-1),-1)[:,:-1]; ((a*t)[...,None]*c).sum(-2)
# swin window
x=T.rand(2,16,16,32)
> w=x.view(2,4,4,4,4,32).permute(0,1,3,2,4,5).reshape(-1,16,32); w.view(2,4,4,4,4,32).permute(0,1,3,2,4,5).reshape(2,16,16,32)
# patchify
x=T.rand(4,3,32,32)
> x.reshape(4,3,4,8,4,8).permute(0,2,4,3,5,1).reshape(4,16,192)
# moe
x=T.rand(64,16); g=nn.Linear(16,4); e=nn.ModuleList([nn.Linear(16,16) for _ in range(4)])
> p=g(x).softmax(-1); v,i=p.topk(2,-1); out=T.zeros_like(x); [out.index_add_(0,(i==k).any(1).nonzero()[:,0],e[k](x[(i==k).any(1)]).detach()) for k in range(4)]
# qat round
x=T.rand(64,64).requires_grad_()
> s=x.detach().abs().max()/127; y=x+((x/s).round()*s-x).detach(); y.sum().backward()
# spectral norm
l=nn.utils.parametrizations.spectral_norm(nn.Linear(16,16)); x=T.rand(4,16)
> l(x).sum().backward()
# weight norm
l=nn.utils.parametrizations.weight_norm(nn.Linear(16,16)); x=T.rand(4,16)
> l(x).sum().backward()
# bilinear up seg
x=T.rand(2,5,16,16).requires_grad_(); y=T.randint(0,5,(2,64,64))
> F.cross_entropy(F.interpolate(x,size=(64,64),mode='bilinear',align_corners=False),y).backward()
# ssim
x=T.rand(2,3,32,32); y=T.rand(2,3,32,32); w=T.ones(3,1,7,7)/49
> a=F.conv2d(x,w,groups=3); b=F.conv2d(y,w,groups=3); v=F.conv2d(x*x,w,groups=3)-a*a; c=F.conv2d(x*y,w,groups=3)-a*b; ((2*a*b+.01)*(2*c+.03)/((a*a+b*b+.01)*(v+.03))).mean()
# total variation
x=T.rand(2,3,32,32).requires_grad_()
> ((x[...,1:]-x[...,:-1]).abs().mean()+(x[...,1:,:]-x[...,:-1,:]).abs().mean()).backward()
# gram matrix
x=T.rand(2,32,16,16).requires_grad_()
> f=x.flatten(2); (f@f.transpose(1,2)/8192).pow(2).sum().backward()
# fft conv
x=T.rand(4,256); k=T.rand(256)
> T.fft.irfft(T.fft.rfft(x)*T.fft.rfft(k),n=256)
# melspec
x=T.rand(1,4000); w=T.hann_window(256); fb=T.rand(129,40)
> (T.stft(x,256,128,window=w,return_complex=True).abs()**2).transpose(1,2)@fb
# views chain
x=T.rand(32,64)
> x.unsqueeze(1).expand(-1,4,-1).transpose(1,2).squeeze(-1)
# attr access
x=T.rand(3,4)
> x.shape,x.dtype,x.device,x.requires_grad,x.ndim,x.size(0),x.numel(),len(x)
# compare item
x=T.rand(1); y=T.rand(1)
> bool((x<y).item()), float(x), int(y)
# is checks
x=T.rand(10)
> T.is_tensor(x), x.is_contiguous(), x.is_floating_point(), x.stride()
# to same
x=T.rand(10)
> x.to('cpu'), x.to(T.float32), x.float(), x.cpu(), x.contiguous(), x.detach()
# to cast
x=T.rand(100)
> x.double(), x.half(), x.int(), x.bool(), x.long()
# clone detach
x=T.rand(100).requires_grad_()
> x.detach().clone().requires_grad_(True)
# scalar ops
x=T.tensor(2.0)
> x*3+1, x**2, x.sqrt(), -x
# python sum
xs=[T.rand(10) for _ in range(20)]
> sum(xs)
# mean of losses
xs=[T.tensor(1.0) for _ in range(20)]
> T.stack(xs).mean().item()
# max of two
x=T.rand(100); y=T.rand(100)
> T.maximum(x,y), T.max(x,y), x.max(), x.argmax()
# min max dim
x=T.rand(32,50)
> x.max(1), x.min(0), x.max(1,keepdim=True)
# sort 1d
x=T.rand(1000)
> x.sort(), x.argsort(), x.sort(descending=True)
# quantile
x=T.rand(1000)
> x.quantile(.5), T.quantile(x,T.tensor([.1,.9]))
# std mean
x=T.rand(100,30)
> T.std_mean(x,0), T.var_mean(x,1)
# norms
x=T.rand(100,30)
> x.norm(), x.norm(p=1), x.norm(dim=1), T.linalg.norm(x)
# cov corr
x=T.rand(10,100)
> T.cov(x), T.corrcoef(x)
# meshgrid
a=T.arange(32.); b=T.arange(32.)
> gy,gx=T.meshgrid(a,b,indexing='ij'); T.stack([gx,gy],-1).view(-1,2)
# cartesian
a=T.arange(10); b=T.arange(10)
> T.cartesian_prod(a,b), T.combinations(a,2)
# tile grid
x=T.rand(16,3,8,8)
> x.view(4,4,3,8,8).permute(2,0,3,1,4).reshape(3,32,32)
# affine grid
t=T.rand(4,2,3); x=T.rand(4,3,16,16)
> F.grid_sample(x,F.affine_grid(t,(4,3,16,16),align_corners=False),align_corners=False)
# gumbel
x=T.rand(32,10).requires_grad_()
> F.gumbel_softmax(x,hard=True).sum().backward()
# straight through
x=T.rand(32,10).requires_grad_()
> i=x.argmax(-1,keepdim=True); h=T.zeros_like(x).scatter_(-1,i,1.); (h-x.detach()+x).sum().backward()
# vq
x=T.rand(128,16).requires_grad_(); e=T.rand(64,16).requires_grad_()
> d=(x**2).sum(1,keepdim=True)-2*x@e.t()+(e**2).sum(1); i=d.argmin(1); q=e[i]; (F.mse_loss(q,x.detach())+F.mse_loss(x,q.detach())).backward()
# label smoothing manual
x=T.rand(64,10).requires_grad_(); y=T.randint(0,10,(64,))
> lp=x.log_softmax(-1); (-(.9*lp.gather(1,y[:,None]).squeeze(1)+.1*lp.mean(-1)).mean()).backward()
# contrastive
z=T.rand(64,32).requires_grad_()
> n=F.normalize(z,dim=1); s=n@n.t()/.5; k=T.eye(64,dtype=T.bool); s=s.masked_fill(k,-9e15); p=k.roll(32,0); (-(s[p]-T.logsumexp(s,-1)).mean()).backward()
# byol
a=T.rand(64,32).requires_grad_(); b=T.rand(64,32)
> (2-2*(F.normalize(a,dim=-1)*F.normalize(b,dim=-1)).sum(-1)).mean().backward()
# barlow
a=T.rand(64,32).requires_grad_(); b=T.rand(64,32)
> c=((a-a.mean(0))/a.std(0)).T@((b-b.mean(0))/b.std(0))/64; on=(T.diagonal(c)-1).pow(2).sum(); off=c.flatten()[:-1].view(31,33)[:,1:].pow(2).sum(); (on+.005*off).backward()
# wgan
D=nn.Linear(16,1); x=T.rand(32,16); z=T.rand(32,16)
> (D(z).mean()-D(x).mean()).backward()
# style mod
w=T.rand(16,8,3,3).requires_grad_(); s=T.rand(4,8); x=T.rand(4,8,16,16)
> ww=w[None]*s[:,None,:,None,None]; d=T.rsqrt((ww**2).sum([2,3,4])+1e-8); ww=(ww*d[:,:,None,None,None]).view(-1,8,3,3); F.conv2d(x.view(1,-1,16,16),ww,padding=1,groups=4).sum().backward()
# adain
x=T.rand(4,16,8,8).requires_grad_(); y=T.rand(4,16,8,8)
> mx,sx=x.mean((2,3),keepdim=True),x.std((2,3),keepdim=True); my,sy=y.mean((2,3),keepdim=True),y.std((2,3),keepdim=True); (((x-mx)/sx*sy+my)**2).sum().backward()
# film
x=T.rand(8,16,8,8).requires_grad_(); g=T.rand(8,32)
> a,b=g.chunk(2,1); ((1+a[:,:,None,None])*x+b[:,:,None,None]).relu().sum().backward()
# cbam
x=T.rand(4,16,8,8).requires_grad_()
> a=T.cat([x.max(1,keepdim=True)[0],x.mean(1,keepdim=True)],1).mean(1,keepdim=True).sigmoid(); (x*a).sum().backward()
# non local
x=T.rand(2,16,8,8).requires_grad_()
> f=x.flatten(2); a=(f.transpose(1,2)@f).softmax(-1); (f@a.transpose(1,2)).view_as(x).sum().backward()
# alibi
s=T.tensor([.5,.25,.125,.0625]); q=T.rand(2,4,32,32)
> p=T.arange(32); q-s[:,None,None]*(p[:,None]-p[None]).abs()
# rel pos bias
t=T.rand(15*15,4).requires_grad_(); i=T.randint(0,225,(64,64)); a=T.rand(8,4,64,64)
> (a+t[i.view(-1)].view(64,64,4).permute(2,0,1)[None]).softmax(-1).sum().backward()
# kv cache cat
k=T.rand(2,4,50,16); n=T.rand(2,4,1,16)
> T.cat([k,n],2)
# gqa repeat
k=T.rand(2,2,32,16).requires_grad_()
> k[:,:,None].expand(2,2,4,32,16).reshape(2,8,32,16).sum().backward()
# swiglu
a=nn.Linear(32,64); b=nn.Linear(32,64); c=nn.Linear(64,32); x=T.rand(4,16,32)
> c(F.silu(a(x))*b(x)).sum().backward()
# rmsnorm manual
w=T.rand(64).requires_grad_(); x=T.rand(4,16,64).requires_grad_()
> (x*T.rsqrt(x.pow(2).mean(-1,keepdim=True)+1e-6)*w).sum().backward()
# layernorm manual
w=T.rand(64).requires_grad_(); x=T.rand(4,16,64).requires_grad_()
> ((x-x.mean(-1,keepdim=True))/(x.var(-1,keepdim=True,unbiased=False)+1e-5).sqrt()*w).sum().backward()
# mamba scan
a=T.rand(4,32,16); b=T.rand(4,32,16)
> h=T.zeros(4,16); hs=[h:=a[:,t]*h+b[:,t] for t in range(32)]; T.stack(hs,1)
# ssm cumsum
a=T.rand(4,64,16).requires_grad_(); b=T.rand(4,64,16)
> l=a.log().cumsum(1); ((b*(-l).exp()).cumsum(1)*l.exp()).sum().backward()
# gat
h=T.rand(100,16).requires_grad_(); e=T.randint(0,100,(2,400)); a=T.rand(32)
> z=F.leaky_relu(T.cat([h[e[0]],h[e[1]]],1)@a,.2); z=(z-z.max()).exp(); d=T.zeros(100).index_add(0,e[1],z); T.zeros(100,16).index_add(0,e[1],h[e[0]]*(z/d[e[1]])[:,None]).sum().backward()
# scatter reduce
x=T.rand(400,8); i=T.randint(0,50,(400,))
> T.zeros(50,8).scatter_reduce(0,i[:,None].expand(-1,8),x,'amax')
# segment mean
x=T.rand(400,8); i=T.randint(0,50,(400,)).sort()[0]
> c=T.bincount(i,minlength=50).clamp(min=1); T.zeros(50,8).index_add_(0,i,x)/c[:,None]
# knn
x=T.rand(200,3)
> T.cdist(x,x).topk(8,largest=False)[1]
# chamfer
x=T.rand(4,100,3).requires_grad_(); y=T.rand(4,100,3)
> d=T.cdist(x,y); (d.min(1)[0].mean()+d.min(2)[0].mean()).backward()
# quaternion mul
a=T.rand(200,4); b=T.rand(200,4)
> a0,a1,a2,a3=a.unbind(-1); b0,b1,b2,b3=b.unbind(-1); T.stack([a0*b0-a1*b1-a2*b2-a3*b3,a0*b1+a1*b0+a2*b3-a3*b2,a0*b2-a1*b3+a2*b0+a3*b1,a0*b3+a1*b2-a2*b1+a3*b0],-1)
# rigid transform
R=T.rand(8,3,3); t=T.rand(8,3); p=T.rand(8,100,3)
> p@R.transpose(1,2)+t[:,None]
# camera project
K=T.rand(3,3); p=T.rand(500,3)
> q=p@K.T; q[:,:2]/q[:,2:]
# depth unproject
d=T.rand(1,32,32); v,u=T.meshgrid(T.arange(32.),T.arange(32.),indexing='ij')
> T.stack([(u-16)*d[0]/20,(v-16)*d[0]/20,d[0]],-1).view(-1,3)
# yolo decode
p=T.rand(2,3,8,8,10)
> xy=p[...,:2].sigmoid(); wh=p[...,2:4].exp(); T.cat([xy,wh,p[...,4:].sigmoid()],-1).view(2,-1,10)
# anchors
s=T.tensor([8.,16.,32.]); a=T.tensor([.5,1.,2.])
> w=(s[:,None]*a.sqrt()).view(-1); h=(s[:,None]/a.sqrt()).view(-1); T.stack([-w,-h,w,h],1)/2
# beam step
lp=T.log_softmax(T.rand(4,1000),-1); s=T.rand(4)
> v,i=(s[:,None]+lp).view(-1).topk(4); b=i//1000; w=i%1000
# ntxent mask
n=64
> k=T.eye(n,dtype=T.bool); ~k, k.roll(32,0)
# time embed
t=T.randint(0,1000,(16,))
> f=T.exp(-9.21*T.arange(16)/16); a=t[:,None].float()*f[None]; T.cat([a.sin(),a.cos()],-1)
# ema update dict
a=nn.Linear(16,16); b=nn.Linear(16,16)
> [v.copy_(v*.9+b.state_dict()[k]*.1) for k,v in a.state_dict().items()]
# freeze
net=nn.Sequential(nn.Linear(8,8),nn.Linear(8,8))
> for p in net.parameters(): p.requires_grad_(False)
# train eval
net=nn.Sequential(*[nn.Sequential(nn.Linear(8,8),nn.Dropout()) for _ in range(5)])
> net.train(); net.eval()
# named params
net=nn.Sequential(*[nn.Sequential(nn.Linear(8,8),nn.BatchNorm1d(8)) for _ in range(5)])
> dict(net.named_parameters()); list(net.modules())
# apply init
net=nn.Sequential(*[nn.Linear(8,8) for _ in range(5)])
> net.apply(lambda l: nn.init.xavier_uniform_(l.weight) if isinstance(l,nn.Linear) else None)
# zero_grad
net=nn.Sequential(*[nn.Linear(8,8) for _ in range(5)])
> net.zero_grad()
# random split
d=T.utils.data.TensorDataset(T.rand(100,3))
> T.utils.data.random_split(d,[80,20])
# collate
b=[(T.rand(3,8,8),i) for i in range(16)]
> T.utils.data.default_collate(b)
# weighted sampler
w=T.rand(100)
> list(T.utils.data.WeightedRandomSampler(w,50))
# bernoulli mvn
c=T.eye(4)*2
> d=T.distributions.MultivariateNormal(T.zeros(4),c); d.log_prob(d.sample((8,)))
# kl normals
a=T.rand(16,4).requires_grad_(); b=T.rand(16,4)
> D=T.distributions; D.kl_divergence(D.Normal(a,b+.1),D.Normal(0.,1.)).sum().backward()
# categorical entropy
x=T.rand(16,4).requires_grad_()
> T.distributions.Categorical(logits=x).entropy().sum().backward()
# beta gamma
a=T.rand(16)+1
> T.distributions.Beta(a,a).sample(), T.distributions.Gamma(a,a).rsample()
# mixture
D=T.distributions; l=T.rand(5); mu=T.rand(5); s=T.rand(5)+.1; x=T.rand(16)
> D.MixtureSameFamily(D.Categorical(logits=l),D.Normal(mu,s)).log_prob(x)
# bfloat step
l=nn.Linear(64,64).bfloat16(); x=T.rand(16,64).bfloat16()
> l(x).sum().backward()
# double step
l=nn.Linear(64,64).double(); x=T.rand(16,64).double()
> l(x).sum().backward()
# complex net
w=T.randn(16,16,dtype=T.complex64).requires_grad_(); x=T.randn(4,16,dtype=T.complex64)
> (x@w).abs().sum().backward()
# einops like
x=T.rand(2,8,8,16)
> x.reshape(2,4,2,4,2,16).mean((2,4)), x.permute(0,3,1,2).flatten(2)
# adagrad
net=nn.Linear(16,16); o=T.optim.Adagrad(net.parameters()); x=T.rand(4,16)
> o.zero_grad(); net(x).sum().backward(); o.step()
# grad scaler
net=nn.Linear(16,16); o=T.optim.SGD(net.parameters(),lr=.1); s=T.amp.GradScaler('cpu'); x=T.rand(4,16)
> o.zero_grad(); s.scale(net(x).sum()).backward(); s.step(o); s.update()
# accumulate
net=nn.Linear(16,16); x=T.rand(4,16)
> [(net(x).sum()/4).backward() for _ in range(4)]
# retain graph
w=T.rand(5).requires_grad_(); l=(w**2).sum()
> l.backward(retain_graph=True)
# double backward
w=T.rand(5).requires_grad_()
> g,=T.autograd.grad((w**3).sum(),w,create_graph=True); g.sum().backward()
# hvp
w=T.rand(5).requires_grad_(); v=T.rand(5)
> g,=T.autograd.grad((w**3).sum(),w,create_graph=True); T.autograd.grad(g,w,v)
# fisher diag
net=nn.Linear(8,3); x=T.rand(16,8); y=T.randint(0,3,(16,))
> for i in range(4): net.zero_grad(); F.cross_entropy(net(x[i:i+1]),y[i:i+1]).backward(); [p.grad**2 for p in net.parameters()]
# saliency
net=nn.Sequential(nn.Conv2d(3,8,3),nn.ReLU(),nn.Flatten(),nn.Linear(8*36,3)); x=T.rand(1,3,8,8)
> x.requires_grad_(); s=net(x); s[0,s.argmax()].backward(); x.grad.abs().max(1)[0]
# fgsm
net=nn.Linear(16,3); x=T.rand(8,16); y=T.randint(0,3,(8,))
> z=x.clone().requires_grad_(); F.cross_entropy(net(z),y).backward(); (z+.1*z.grad.sign()).clamp(0,1)
# parameter list
p=nn.ParameterList([T.rand(4) for _ in range(5)])
> sum(q.sum() for q in p).backward()
# module dict
d=nn.ModuleDict({str(i):nn.Linear(4,4) for i in range(5)}); x=T.rand(2,4)
> [d[k](x) for k in d]
# buffers
b=nn.BatchNorm2d(4); x=T.rand(2,4,4,4)
> b(x); b.running_mean.clone()
# eval infer
net=nn.Sequential(nn.Linear(16,32),nn.BatchNorm1d(32),nn.ReLU(),nn.Dropout(),nn.Linear(32,3)).eval(); x=T.rand(8,16)
> with T.no_grad(): net(x).softmax(-1).max(-1)
# inference_mode
net=nn.Linear(16,3); x=T.rand(8,16)
> with T.inference_mode(): net(x)
"""


def _of(name: str, lines: list[str]) -> None:
    def make(T: Any) -> Callable[[], Any]:
        known = {"T": T, "F": T.nn.functional, "nn": T.nn}
        exec("\n".join(line for line in lines if line[:1] != ">"), known)
        exec("def run():\n" + "\n".join(" " + line[1:] for line in lines if line[:1] == ">"), known)
        return known["run"]  # type: ignore[return-value]

    KINDS[name] = make


for part in LINES.strip().removeprefix("# ").split("\n# "):
    _name, *_lines = part.split("\n")
    _of(f"everyday {_name}", _lines)
for _name, (_one, _two) in SHAPES.items():
    _of(f"everyday {_name}", [f"x, y = T.rand{_one}, T.rand{_two}", "> x * y"])
for _name, (_shape, _dim) in FOLDED.items():
    for _fold in FOLDS:
        _of(f"everyday {_fold} of {_name}", [f"x = T.rand{_shape}", f"> x.{_fold}({_dim})"])
